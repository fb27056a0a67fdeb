"""Which entries of a stream are worth a merge, and the transaction that swaps them.

Entries are ranked by size; each rank is eight times the one below. A run of ``fan_in`` neighbours
up to some rank is worth a merge, unless one entry is most of it. So a byte is rewritten a few
times, and the number of entries grows with the logarithm of the data until entries are large.

Invariants:

- A swap replaces a run of entries by one entry with the same records, in a single transaction that
  is guarded by ``layout``. Readers see the old entries or the new one.
- The swap compares the incarnation's key. So the index never names an object of a fenced broker,
  which others may delete.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.log.append.commit import Fenced
from headwater.log.formats.metadata_values import INLINE, WAL, IndexEntry, Layout, ObjectRecord
from headwater.log.formats.wal_object import Placement
from headwater.log.jobs.jobs import Job
from headwater.log.reclaim.releases import release
from headwater.meta import keys
from headwater.meta.store import Decide, Limits, Values, Writes
from headwater.meta.values import decode, encode

SMALLEST_RANK = 4 * 1024
RANK_FACTOR = 8
RUN_ENTRIES = 1024
OPERATIONS_PER_STREAM = 4
OPERATIONS_PER_SWAP = 2


def rank(length: int) -> int:
    """The rank of an entry of ``length`` bytes.

    >>> [rank(length) for length in (100, 4096, 40_000, 64 * 1024 * 1024)]
    [0, 1, 2, 5]
    """
    found, bound = 0, SMALLEST_RANK
    while length >= bound:
        found += 1
        bound *= RANK_FACTOR
    return found


def mergeable(entries: Sequence[IndexEntry], job: Job | None) -> list[IndexEntry]:
    """The entries that may be merged: chunks outside of the open job's range.

    An entry in quarantine is not merged, because good records would be in quarantine with it.
    """
    return [
        entry
        for entry in entries
        if entry.kind in (INLINE, WAL)
        and not entry.set_aside
        and (job is None or entry.end <= job.start or job.end <= entry.start)
    ]


def plan_merge(
    entries: Sequence[IndexEntry],
    *,
    fan_in: int,
    small_bytes: int,
    max_bytes: int,
    max_entries: int = RUN_ENTRIES,
    enough_bytes: int | None = None,
) -> Sequence[IndexEntry]:
    """The run of neighbouring small entries to merge first; empty if no run is worth it.

    Low ranks come first: they are cheap to merge, and there are most of them. Entries of
    ``small_bytes`` and more are not merged. A run that is worth a merge ends at ``enough_bytes``.
    """
    fan_in = min(fan_in, max_entries)
    largest = rank(small_bytes - 1)
    ranks = [rank(entry.length) if entry.length < small_bytes else largest + 1 for entry in entries]
    for limit in range(largest + 1):
        run: list[IndexEntry] = []
        size = 0
        for entry, own in zip(entries, ranks, strict=True):
            mergeable = own <= limit
            full = mergeable and size + entry.length > max_bytes
            long = len(run) == max_entries
            if not mergeable or full or long or (run and run[-1].end != entry.start):
                if worth_while(run, fan_in) or (full and len(run) > 1):
                    return run
                run, size = [], 0
            if mergeable:
                run.append(entry)
                size += entry.length
                enough = enough_bytes is not None and size >= enough_bytes
                if enough and worth_while(run, fan_in):
                    return run
        if worth_while(run, fan_in):
            return run
    return []


def plan_relief(
    entries: Sequence[IndexEntry], max_bytes: int, max_entries: int = RUN_ENTRIES
) -> Sequence[IndexEntry]:
    """The first run of inline entries of any length, to relieve the metadata store."""
    run: list[IndexEntry] = []
    size = 0
    for entry in entries:
        apart = bool(run) and run[-1].end != entry.start
        if run and (entry.kind != INLINE or apart or size + entry.length > max_bytes):
            break
        if entry.kind == INLINE:
            run.append(entry)
            size += entry.length
        if len(run) == max_entries:
            break
    return run


def inline_size(entries: Sequence[IndexEntry]) -> int:
    return sum(entry.length for entry in entries if entry.kind == INLINE)


def worth_while(run: Sequence[IndexEntry], fan_in: int) -> bool:
    """Whether a run is worth a merge: it is long enough, and no entry is most of it.

    Otherwise a large entry would be rewritten for every few tiny ones after it.
    """
    if len(run) < fan_in:
        return False
    lengths = [entry.length for entry in run]
    return sum(lengths) >= 2 * max(lengths)


@dataclass(frozen=True, slots=True)
class MergedRun:
    """The run of one stream and the chunk that replaces it."""

    stream: int
    run: Sequence[IndexEntry]
    generation: int
    length: int
    placement: Placement


def divide_by_transaction(
    merged: Sequence[MergedRun], limits: Limits
) -> Iterator[Sequence[MergedRun]]:
    """The runs in order, in groups that fit into one transaction."""
    max_runs = len(merged)
    if limits.operations is not None:
        max_runs = (limits.operations - OPERATIONS_PER_SWAP) // OPERATIONS_PER_STREAM
    some: list[MergedRun] = []
    entries = 0
    for one in merged:
        entries += len(one.run)
        if some and (len(some) == max_runs or (limits.range_keys and entries > limits.range_keys)):
            yield some
            some, entries = [], len(one.run)
        some.append(one)
    if some:
        yield some


@dataclass(frozen=True, slots=True)
class MergeSwap:
    """One transaction: the runs of some streams are replaced by their chunks in one object."""

    incarnation: str
    store: str
    key: str
    size: int
    part: int
    parts: int
    merged: Sequence[MergedRun]

    @property
    def record_key(self) -> str:
        return keys.object_record(0, self.key, self.part)

    @property
    def keys(self) -> list[str]:
        return [
            keys.incarnation(0, self.incarnation),
            self.record_key,
            *(keys.layout(0, one.stream) for one in self.merged),
        ]


def swap_runs(swap: MergeSwap, now_ms: int) -> Decide[list[int]]:
    """The pure function of the swap; returns the streams that were swapped."""

    def decide(values: Values) -> tuple[Writes, list[int]]:
        writes = Writes()
        if values[keys.incarnation(0, swap.incarnation)] is None:
            raise Fenced(f"broker incarnation {swap.incarnation} was fenced")
        if (landed := values[swap.record_key]) is not None:
            return writes, decode(ObjectRecord, landed.value).live
        live = [one.stream for one in swap.merged if _swap_run(swap, one, values, writes, now_ms)]
        if live:
            record = ObjectRecord(size=swap.size, parts=swap.parts, live=live, created_ms=now_ms)
            writes.put(swap.record_key, encode(record))
        return writes, live

    return decide


def close_part(
    incarnation_key: str, record_key: str, parts: int, size: int, now_ms: int
) -> Decide[None]:
    """Record a part without a swapped stream, so that the object's parts are complete.

    Without it the object would look unfinished and be kept while its writer lives. If the writer is
    fenced nothing is written, and nothing is needed.
    """

    def decide(values: Values) -> tuple[Writes, None]:
        writes = Writes()
        if values[incarnation_key] is not None and values[record_key] is None:
            record = ObjectRecord(size=size, parts=parts, live=[], created_ms=now_ms)
            writes.put(record_key, encode(record))
        return writes, None

    return decide


def _swap_run(swap: MergeSwap, one: MergedRun, values: Values, writes: Writes, now_ms: int) -> bool:
    layout_key = keys.layout(0, one.stream)
    stored = values[layout_key]
    layout = Layout() if stored is None else decode(Layout, stored.value)
    if layout.generation != one.generation:
        return False
    layout.generation += 1
    first, last = one.run[0], one.run[-1]
    entry = IndexEntry(
        start=first.start,
        end=last.end,
        kind=WAL,
        length=one.length,
        size=last.size,
        max_timestamp=max(entry.max_timestamp for entry in one.run),
        created_ms=last.created_ms,
        store=swap.store,
        key=swap.key,
        part=swap.part,
        position=one.placement.position,
        blocks=(one.placement.blocks_position, one.placement.blocks),
    )
    writes.delete_range(
        keys.index_entry(0, one.stream, first.end), keys.index_entry(0, one.stream, last.end)
    )
    writes.put(keys.index_entry(0, one.stream, last.end), encode(entry))
    writes.put(layout_key, encode(layout))
    release(writes, one.stream, one.run, layout.generation, now_ms)
    return True
