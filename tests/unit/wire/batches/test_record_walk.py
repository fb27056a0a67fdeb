"""The walk over a batch's records, plain and compiled: one answer from both."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import InvalidRecord
from headwater.wire.batches import record_walk, walk_kernel
from headwater.wire.batches.batch import HEADER_SIZE
from headwater.wire.batches.record_walk import (
    CUT,
    FAULTY,
    LENGTHS_WALKED,
    MALFORMED,
    MAX_FAULTS,
    NO_KEY,
    OUT_OF_TIME,
    WALKED,
    RecordLimits,
    Walk,
    Walked,
    check_end,
    walk_lengths,
)
from headwater.wire.batches.records import Record, encode_batch
from headwater.wire.varint import encode_signed
from tests.support.wire.batches import edits, mutate, record_lists, some_batch

WALKS = [record_walk.walk, walk_kernel.walk]
BASE = 1_000


def any_records(count: int) -> RecordLimits:
    return RecordLimits(count, needs_keys=False, earliest=-(2**63), latest=2**63 - 1)


def both(payload: bytes, limits: RecordLimits, start: Walked | None = None) -> Walked:
    """What both walks say, which is the same."""
    start = start or Walked()
    plain, native = (walk(payload, len(payload), start, BASE, limits) for walk in WALKS)
    assert plain == native
    return plain


def payload_of(records: list[Record]) -> bytes:
    return encode_batch([Record(0, BASE, b"", b""), *records])[HEADER_SIZE:]


def numbered(*rows: tuple[bytes | None, int]) -> list[Record]:
    return [Record(n, timestamp, key, b"v") for n, (key, timestamp) in enumerate(rows, start=1)]


@given(records=record_lists())
@settings(deadline=None)
def test_records_are_walked_to_their_end(records: list[Record]) -> None:
    data = encode_batch(records)[HEADER_SIZE:]
    limits = any_records(len(records))
    for walk in WALKS:
        walked = walk(data, len(data), Walked(), records[0].timestamp, limits)
        assert walked[:3] == (WALKED, len(records), len(data))
        assert walked.largest == max(-1, *(record.timestamp for record in records))
        check_end(walked, len(data), limits)
    lengths = walk_lengths(data, len(data), Walked(), 0, limits)
    assert lengths[:3] == (WALKED, len(records), len(data))


@given(
    records=record_lists(), cut=st.integers(0, 2000), walk=st.sampled_from([*WALKS, walk_lengths])
)
@settings(deadline=None)
def test_a_walk_goes_on_where_it_was_cut(records: list[Record], cut: int, walk: Walk) -> None:
    data = encode_batch(records)[HEADER_SIZE:]
    limits = any_records(len(records))
    first = walk(data, min(cut, len(data)), Walked(), 0, limits)
    assert first.status == (WALKED if cut >= len(data) else CUT)
    whole = walk(data, len(data), Walked(), 0, limits)
    assert walk(data, len(data), first, 0, limits) == whole


@given(changes=edits)
@settings(max_examples=400, deadline=None)
def test_both_walks_agree_on_mutated_records(changes: list[tuple[int, int]]) -> None:
    data = mutate(some_batch(count=9)[HEADER_SIZE:], changes)
    for limits in (any_records(9), RecordLimits(9, needs_keys=True, earliest=0, latest=BASE)):
        both(data, limits)


@pytest.mark.parametrize(
    "data",
    [
        b"this is no record at all",
        bytes(100),
        b"\x0a" + bytes(20),  # a length that no record has
        b"\x0c\0\0\0\x02\0\0",  # a key that reaches beyond the record
        b"\x0c\0\0\0\0\0\x02",  # a header that is not there
        b"\x0e\0\0\0\0\0\0\0",  # a byte too many
        b"\x0c\0\0\x02\0\0\0",  # its offset delta is 1
        b"\xff\xff\xff\xff\xff\x01" + bytes(20),
    ],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    walked = both(data, any_records(1))
    assert walked.number == 0
    with pytest.raises(InvalidRecord):
        check_end(walked, len(data), any_records(1))


@pytest.mark.parametrize("walk", [*WALKS, walk_lengths])
@pytest.mark.parametrize("count", [1, 3])
def test_a_count_that_is_wrong_is_refused(walk: Walk, count: int) -> None:
    data = payload_of(numbered((b"k", BASE)))
    walked = walk(data, len(data), Walked(), BASE, any_records(count))
    with pytest.raises(InvalidRecord):
        check_end(walked, len(data), any_records(count))


def test_each_record_at_fault_is_named() -> None:
    rows: list[tuple[bytes | None, int]] = [(b"k", 900), (None, BASE), (b"k", -1), (b"k", 1_201)]
    limits = RecordLimits(5, needs_keys=True, earliest=950, latest=1_200)
    walked = both(payload_of(numbered(*rows)), limits)
    assert walked.faults == (2 + OUT_OF_TIME, 4 + NO_KEY, 8 + OUT_OF_TIME)
    assert walked.largest == 1_201


def test_faults_are_counted_over_all_parts_and_bounded() -> None:
    rows: list[tuple[bytes | None, int]] = [(None, BASE)] * (MAX_FAULTS + 10)
    data = payload_of(numbered(*rows))
    limits = RecordLimits(MAX_FAULTS + 11, needs_keys=True, earliest=0, latest=2 * BASE)
    first = both(data[:500], limits)
    assert first.status == CUT
    assert first.faults
    walked = both(data, limits, first)
    assert walked.status == FAULTY
    assert walked.faults == tuple(2 * n + NO_KEY for n in range(1, MAX_FAULTS + 1))


def test_lengths_are_looked_at_of_the_first_records_only() -> None:
    def of(*records: Any) -> bytes:
        return b"".join(encode_signed(len(one)) + one for one in records)

    good = [bytes(6)] * LENGTHS_WALKED
    limits = any_records(LENGTHS_WALKED + 1)
    for last, status in ((b"what", WALKED), (bytes(6), WALKED)):
        data = of(*good, last)
        assert walk_lengths(data, len(data), Walked(), 0, limits).status == status
    data = of(*good[1:], b"what", bytes(6))
    assert walk_lengths(data, len(data), Walked(), 0, limits).status == MALFORMED
