"""Which records of a batch are checked, in which thread, and with which result."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from headwater.broker.records.record_checks import (
    MAX_RECORDS,
    MAX_UNCOMPRESSED,
    SCRATCH_BYTES,
    RecordChecks,
)
from headwater.broker.records.topic_rules import TopicRules, rules_of
from headwater.errors import InvalidRecord, InvalidTimestamp, MessageTooLarge, RefusedRecords
from headwater.log.record_work import RecordWork
from headwater.wire.batches import walk_kernel
from headwater.wire.batches.batch import HEADER, HEADER_SIZE, Batch, split_batches
from headwater.wire.batches.codecs import Codec
from headwater.wire.batches.records import Record, decode_batch, encode_batch
from headwater.work_budget import TURN_BYTES
from tests.support.broker.running import NOW
from tests.support.wire.batches import resealed

CODECS = list(Codec)


class CountingOffload:
    """An offload that counts its jobs."""

    def __init__(self) -> None:
        self.jobs = 0

    async def __call__(self, function: Callable[[], Any]) -> Any:
        self.jobs += 1
        return function()


class CountingChecker:
    def __init__(self, *, compiled: bool) -> None:
        self.threads = CountingOffload()
        work = RecordWork(self.threads)
        if compiled:
            work.walk, work.walks_all = walk_kernel.walk, True
        self.checks = RecordChecks(work)

    async def __call__(self, data: bytes, rules: TopicRules) -> Batch:
        (batch,) = split_batches(data)
        checked = self.checks.check(batch, rules, NOW)
        return checked if isinstance(checked, Batch) else await checked


@pytest.fixture(params=[False, True], ids=["plain", "compiled"])
def checker(request: pytest.FixtureRequest) -> CountingChecker:
    return CountingChecker(compiled=request.param)


def rules(**configs: str) -> TopicRules:
    return rules_of({name.replace("_", "."): value for name, value in configs.items()})


def batch_of(*rows: tuple[bytes | None, int], codec: int = 0, size: int = 10) -> bytes:
    records = [Record(n, time, key, bytes(size)) for n, (key, time) in enumerate(rows)]
    return encode_batch(records, codec=codec)


GOOD = [(b"k", NOW)] * 20


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [10, SCRATCH_BYTES // 4])
async def test_valid_records_are_unchanged(checker: CountingChecker, codec: int, size: int) -> None:
    data = batch_of(*GOOD, codec=codec, size=size)
    assert (await checker(data, rules())).data == data


@pytest.mark.parametrize("codec", CODECS[1:])
async def test_small_batches_are_decompressed_on_the_loop_and_others_in_a_thread(
    codec: int,
) -> None:
    checker = CountingChecker(compiled=True)
    await checker(batch_of(*GOOD, codec=codec), rules())
    assert checker.threads.jobs == 0
    await checker(batch_of(*GOOD, codec=codec, size=SCRATCH_BYTES // 4), rules())
    assert checker.threads.jobs > 0


async def test_the_bytes_decompressed_in_one_turn_are_bounded() -> None:
    checker = CountingChecker(compiled=True)
    (batch,) = split_batches(batch_of(*GOOD, codec=Codec.ZSTD))
    outcomes = [checker.checks.check(batch, rules(), NOW) for _ in range(10)]
    later = [one for one in outcomes if not isinstance(one, Batch)]
    assert len(later) == 10 - TURN_BYTES // SCRATCH_BYTES
    assert [await one for one in later] == [batch] * len(later)
    assert isinstance(checker.checks.check(batch, rules(), NOW), Batch)


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("cut", [0, 5, 30])
async def test_records_that_do_not_decompress_are_invalid(
    checker: CountingChecker, codec: int, cut: int
) -> None:
    data = batch_of(*GOOD, codec=codec)
    broken = data[: HEADER_SIZE + cut]
    broken = broken[:8] + (len(broken) - 12).to_bytes(4, "big") + broken[12:]
    with pytest.raises(InvalidRecord):
        await checker(resealed(broken), rules())


@pytest.mark.parametrize("codec", CODECS)
async def test_a_count_that_is_too_large_is_refused(checker: CountingChecker, codec: int) -> None:
    data = bytearray(batch_of(*GOOD, codec=codec))
    for count, error in ((21, InvalidRecord), (MAX_RECORDS, InvalidRecord), (2**31 - 1, None)):
        data[23:27] = (count - 1).to_bytes(4, "big")
        data[57:61] = count.to_bytes(4, "big")
        with pytest.raises(error or (InvalidRecord, MessageTooLarge)):
            await checker(resealed(bytes(data)), rules())


@pytest.mark.parametrize("codec", CODECS)
async def test_records_without_a_key_are_named_on_a_compacted_topic(
    checker: CountingChecker, codec: int
) -> None:
    rows = [(None if n % 10 == 3 else b"k", NOW) for n in range(100)]
    check = partial(checker, batch_of(*rows, codec=codec))
    await check(rules())
    with pytest.raises(InvalidRecord) as refused:
        await check(rules(cleanup_policy="compact"))
    assert [index for index, _ in refused.value.record_errors] == list(range(3, 100, 10))


@pytest.mark.parametrize("codec", CODECS)
async def test_records_with_a_timestamp_out_of_bounds_are_named(
    checker: CountingChecker, codec: int
) -> None:
    hour = 3_600_000
    rows = [(b"k", NOW), (b"k", NOW + 2 * hour), (b"k", -1), (b"k", NOW - 2 * hour)]
    check = partial(checker, batch_of(*rows, codec=codec))
    await check(rules(message_timestamp_type="LogAppendTime"))
    before = {"message_timestamp_before_max_ms": str(hour)}
    with pytest.raises(InvalidTimestamp) as refused:
        await check(rules(**before))
    assert isinstance(refused.value, RefusedRecords)
    assert [index for index, _ in refused.value.record_errors] == [1, 3]


async def test_a_wrong_largest_timestamp_in_the_header_is_corrected() -> None:
    data = bytearray(batch_of((b"k", NOW - 5), (b"k", NOW - 9)))
    data[35:43] = (NOW + 100).to_bytes(8, "big")
    checked = await CountingChecker(compiled=True)(resealed(bytes(data)), rules())
    assert checked.max_timestamp == NOW - 5
    assert HEADER.unpack_from(checked.data)[8] == NOW - 5
    assert split_batches(checked.data) == [checked]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("wanted", ["uncompressed", "lz4", "zstd"])
async def test_records_are_stored_in_the_topics_codec(
    checker: CountingChecker, codec: int, wanted: str
) -> None:
    data = batch_of(*GOOD, codec=codec, size=3_000)
    wants = rules(compression_type=wanted, cleanup_policy="compact")
    checked = await checker(data, wants)
    assert checked.codec == wants.codec
    assert decode_batch(checked.data) == decode_batch(data)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
async def test_a_record_that_is_too_large_is_refused_by_its_length(
    checker: CountingChecker, codec: int
) -> None:
    data = batch_of((b"k", NOW), codec=codec, size=MAX_UNCOMPRESSED + 1)
    with pytest.raises(MessageTooLarge):
        await checker(data, rules(max_message_bytes=str(MAX_UNCOMPRESSED)))
    assert checker.threads.jobs <= 1


async def test_a_batch_that_grows_above_the_topics_bound_is_refused(
    checker: CountingChecker,
) -> None:
    data = batch_of(*GOOD, codec=Codec.ZSTD, size=10_000)
    with pytest.raises(MessageTooLarge):
        await checker(data, rules(compression_type="uncompressed", max_message_bytes="100000"))
