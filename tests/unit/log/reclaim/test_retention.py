"""Retention removes whole entries from the front, by time and by size."""

from collections.abc import AsyncIterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.formats.metadata_values import WAL, IndexEntry
from headwater.log.reclaim.retention import UNLIMITED, retained_from

NOW = 1_000_000


async def iterate(entries: Sequence[IndexEntry]) -> AsyncIterator[IndexEntry]:
    for entry in entries:
        yield entry


def log_of(entries: Sequence[tuple[int, int]]) -> list[IndexEntry]:
    """Entries by (length, largest timestamp), ten records each."""
    found, size = [], 0
    for number, (length, timestamp) in enumerate(entries):
        size += length
        found.append(
            IndexEntry(
                start=number * 10, end=number * 10 + 10, kind=WAL, length=length, size=size,
                max_timestamp=timestamp, created_ms=NOW - 500,
            )
        )  # fmt: skip
    return found


async def start_of(
    entries: Sequence[IndexEntry], *, ms: int = UNLIMITED, size: int = UNLIMITED
) -> int:
    total = entries[-1].size if entries else 0
    return await retained_from(
        iterate(entries), size=total, retention_ms=ms, retention_bytes=size, now_ms=NOW
    )


async def test_without_limits_everything_stays() -> None:
    assert await start_of(log_of([(100, 0)] * 5)) == 0
    assert await start_of([], ms=0, size=0) == 0


async def test_old_entries_go_up_to_the_first_that_is_young() -> None:
    log = log_of([(1, NOW - 500), (1, NOW - 101), (1, NOW - 100), (1, NOW - 900)])
    assert await start_of(log, ms=100) == 20


async def test_size_keeps_at_least_what_was_asked_for() -> None:
    log = log_of([(100, NOW)] * 5)
    assert await start_of(log, size=200) == 30
    assert await start_of(log, size=201) == 20
    assert await start_of(log, size=0) == 50
    assert await start_of(log, size=10**9) == 0


async def test_records_without_a_time_age_from_their_commit() -> None:
    log = log_of([(1, -1)])
    assert await start_of(log, ms=501) == 0
    assert await start_of(log, ms=499) == 10


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(NOW - 100, NOW)), max_size=20),
    st.integers(0, 100) | st.just(UNLIMITED),
    st.integers(0, 400) | st.just(UNLIMITED),
)
async def test_what_is_left_is_the_least_that_keeps_both_promises(
    entries: list[tuple[int, int]], ms: int, size: int
) -> None:
    log = log_of(entries)
    start = await start_of(log, ms=ms, size=size)
    gone = [entry for entry in log if entry.end <= start]
    left = [entry for entry in log if entry.end > start]
    total = sum(entry.length for entry in log)
    for entry in gone:
        old = ms != UNLIMITED and entry.max_timestamp < NOW - ms
        assert old or (size != UNLIMITED and total - entry.size >= size)
    if left:
        first = left[0]
        assert ms == UNLIMITED or first.max_timestamp >= NOW - ms
        assert size == UNLIMITED or total - first.size < size
