"""Flushes that a store's transactions cannot hold at once."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import (
    KafkaStorageError,
    StorageFull,
    StoreError,
    StoreUnavailable,
    TransactionTooLarge,
    UnknownOutcome,
)
from headwater.log.formats.metadata_values import ObjectRecord
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import CommitResult, Decide, T, Values, Writes, prefix_end
from headwater.meta.values import decode
from tests.support.log.harness import make_batch
from tests.support.log.writing import WHOLE, TroubledLogWriter, outcomes, simulate

LARGEST_OF_ONE = 1_500
"""Bytes that a transaction of one stream and one batch stays below."""


class NarrowStore(MemoryStore):
    """Limits the bytes of one transaction, as etcd does."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.refused = 0

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        def measured(values: Values) -> tuple[Writes, T]:
            writes, result = decide(values)
            if sum(len(key) + len(value) for key, value in writes.puts.items()) > self.most:
                self.refused += 1
                raise TransactionTooLarge(f"more than {self.most} bytes")
            return writes, result

        return await super().transact(domain, keys, measured)

    async def parts(self) -> dict[str, list[ObjectRecord]]:
        """The records of every object."""
        found = defaultdict(list)
        start = keys.objects(0)
        for entry in (await self.scan(start, prefix_end(start))).entries:
            found[entry.key.rsplit("/", 1)[0]].append(decode(ObjectRecord, entry.value))
        return found


@given(
    st.integers(LARGEST_OF_ONE, 20_000),
    st.integers(0, 2**32),
    st.sampled_from([WHOLE, LogSettings()]),
)
def test_a_flush_lands_whole_and_in_order_however_little_a_transaction_holds(
    most: int, seed: int, settings: LogSettings
) -> None:
    store = NarrowStore(most)

    async def work(bench: TroubledLogWriter) -> None:
        rng = Random(seed)
        sent = [rng.randrange(40) for _ in range(150)]
        futures = []
        for number, stream in enumerate(sent):
            futures.append(bench.append(b"%d" % number, stream))
            if not rng.randrange(40):
                await asyncio.sleep(0.01)
        counts: Counter[int] = Counter()
        expected = []
        for stream in sent:
            expected.append(counts[stream])
            counts[stream] += 1
        assert await outcomes(futures) == expected
        for records in (await store.parts()).values():
            assert len(records) == max(record.parts for record in records)

    simulate(work, settings, store)


def test_what_was_learnt_holds_for_later_flushes() -> None:
    store = NarrowStore(2_500)

    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([bench.append(stream=n) for n in range(30)]) == [0] * 30
        first = store.refused
        assert await outcomes([bench.append(stream=n) for n in range(30)]) == [1] * 30
        assert 0 < store.refused - first < first

    simulate(work, store=store)


def test_parts_grow_again_when_the_store_takes_more() -> None:
    store = NarrowStore(LARGEST_OF_ONE)

    async def work(bench: TroubledLogWriter) -> None:
        assert await outcomes([bench.append(stream=n) for n in range(30)]) == [0] * 30
        store.most = 10**6
        for number in range(1, 4):
            assert await outcomes([bench.append(stream=n) for n in range(30)]) == [number] * 30
        counts = [len(records) for _, records in sorted((await store.parts()).items())]
        assert counts == sorted(counts, reverse=True)
        assert counts[-1] <= 2

    simulate(work, store=store)


@pytest.mark.parametrize("settings", [WHOLE, LogSettings()])
def test_a_stream_that_alone_is_too_large_is_an_error_and_no_other_is(
    settings: LogSettings,
) -> None:
    store = NarrowStore(10**6)

    async def work(bench: TroubledLogWriter) -> None:
        many = [make_batch(producer_id=n, epoch=0, sequence=0) for n in range(200)]
        await bench.writer.append(5, many)
        store.most = 2_500
        streams = [bench.append(stream=n) for n in range(9)]
        assert await outcomes(streams) == [0, 0, 0, 0, 0, "KafkaStorageError", 0, 0, 0]
        with pytest.raises(KafkaStorageError, match="more than 2500 bytes"):
            await bench.append(stream=5)
        for records in (await store.parts()).values():
            assert len(records) == max(record.parts for record in records)

    simulate(work, settings, store)


def test_a_flush_is_not_split_while_an_attempt_may_still_be_applied() -> None:
    """Its parts would have numbers of their own, and land beside it."""
    store = NarrowStore(20_000)

    async def work(bench: TroubledLogWriter) -> None:
        bench.meta_faults.strike(range(1), UnknownOutcome("lost"))
        store.most = 2_500
        failed = await outcomes([bench.append(stream=n) for n in range(30)])
        assert failed == ["RequestTimedOut"] * 30
        assert not bench.commits

    simulate(work, store=store)


@pytest.mark.parametrize("last", [StorageFull("full"), TransactionTooLarge("too large")])
def test_a_refusal_after_a_lost_answer_is_an_unknown_outcome(last: StoreError) -> None:
    """What may have landed is not known to readers until they look again."""

    async def work(bench: TroubledLogWriter) -> None:
        bench.meta_faults.strike(range(1), UnknownOutcome("lost"), after=True)
        pending = bench.append()
        await asyncio.sleep(0.002)
        bench.meta_faults.strike(range(1), last)
        assert await outcomes([pending]) == ["RequestTimedOut"]
        assert bench.unknown_outcomes == 1
        assert await outcomes([bench.append()]) == [1]

    simulate(work)


def test_a_refusal_alone_is_a_known_outcome() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.meta_faults.strike(range(1), StorageFull("full"))
        assert await outcomes([bench.append()]) == ["KafkaStorageError"]
        assert not bench.unknown_outcomes
        assert await outcomes([bench.append()]) == [0]

    simulate(work)


def test_a_writer_closes_though_the_store_stays_away() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.meta_faults.strike(range(10**6), StoreUnavailable("away"))
        pending = [bench.append(), bench.append(stream=2)]
        await bench.writer.close()
        assert bench.loop.time() <= 2.1
        assert set(await outcomes(pending)) == {"RequestTimedOut"}

    simulate(work, LogSettings(append_timeout_ms=2_000))
