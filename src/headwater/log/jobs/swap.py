"""ICEBERG_COMMITTED → INDEX_SWAPPED: a job's files replace the index entries of its range.

It is one transaction, guarded by the job's state and by ``layout``: readers see the old entries or
the new ones. Entries in quarantine stay and are marked. A file that is wholly below the log start
gets no entry; it goes on the table release list, like any table file that leaves the log.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import KafkaStorageError
from headwater.log.formats.metadata_values import IndexEntry, Layout
from headwater.log.jobs.jobs import ICEBERG_COMMITTED, INDEX_SWAPPED, DataFile, Job
from headwater.log.reclaim.releases import release
from headwater.meta import keys
from headwater.meta.store import Decide, Values, Writes
from headwater.meta.values import decode, encode


class Rearranged(KafkaStorageError):
    """Raised if the index has changed since it was read; read it again."""


def swap_keys(stream: int) -> list[str]:
    return [keys.job(0, stream), keys.layout(0, stream)]


def swap_files(
    job: Job, entries: Sequence[IndexEntry], generation: int, now_ms: int
) -> Decide[Job | None]:
    """The pure function of the swap; reads ``swap_keys``.

    ``entries`` are those of the job's range, read after the layout had this generation; entries in
    quarantine have their data. Returns the job as it is stored; None if it is over.
    """

    def decide(values: Values) -> tuple[Writes, Job | None]:
        writes = Writes()
        job_key, layout_key = swap_keys(job.stream)
        stored = values[job_key]
        there = None if stored is None else decode(Job, stored.value)
        if there is None or there.id != job.id:
            return writes, None
        if there.state == INDEX_SWAPPED:
            return writes, there
        if there.state != ICEBERG_COMMITTED:
            raise ValueError(f"job {job.id} is not in the table: its state is {there.state}")
        laid = values[layout_key]
        layout = Layout() if laid is None else decode(Layout, laid.value)
        if layout.generation != generation:
            raise Rearranged(f"the index of stream {job.stream} changed")
        after = rearrange(there, entries, layout.log_start)
        layout.generation += 1
        layout.trimmed_size = max(layout.trimmed_size, after.trimmed_size)
        there.state = INDEX_SWAPPED
        writes.delete_range(
            keys.index_entry(0, job.stream, job.start + 1),
            keys.index_entry(0, job.stream, job.end + 1),
        )
        for entry in after.put:
            writes.put(keys.index_entry(0, job.stream, entry.end), encode(entry))
        writes.put(layout_key, encode(layout))
        writes.put(job_key, encode(there))
        release(writes, job.stream, after.gone, layout.generation, now_ms)
        return writes, there

    return decide


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A job's range after the swap: new entries, replaced entries, the running size below them."""

    put: list[IndexEntry]
    gone: list[IndexEntry]
    trimmed_size: int


def rearrange(job: Job, entries: Sequence[IndexEntry], log_start: int) -> Arrangement:
    """The range of a job after its swap.

    Raises ``KafkaStorageError`` if the entries do not fit the job.
    """
    put: list[IndexEntry] = []
    replaced: list[IndexEntry] = []
    for entry in entries:
        reason = _set_aside(job, entry)
        if reason is None:
            replaced.append(entry)
        else:
            entry.set_aside = reason
            put.append(entry)
    unneeded: list[IndexEntry] = []
    trimmed_size = 0
    for file in job.files:
        number = bisect_right(replaced, file.end - 1, key=lambda entry: entry.end)
        found = number < len(replaced) and replaced[number].start < file.end
        if file.end <= log_start:
            unneeded.append(entry_of(file))
            trimmed_size = _size_at(replaced, number, file.end) if found else trimmed_size
        elif found:
            size = _size_at(replaced, number, file.end)
            put.append(entry_of(file, size, replaced[number].created_ms))
        else:
            raise KafkaStorageError(
                f"job {job.id}: no index entry has the end {file.end} of a file"
            )
    return Arrangement(put, [*replaced, *unneeded], trimmed_size)


def _set_aside(job: Job, entry: IndexEntry) -> str | None:
    """Why an entry is in quarantine; None if it is not."""
    if entry.start < job.start or entry.end > job.end:
        raise KafkaStorageError(
            f"job {job.id}: entry [{entry.start}, {entry.end}) is not inside its range"
        )
    for start, end, reason in job.set_aside:
        if entry.start < end and start < entry.end:
            if entry.start < start or entry.end > end:
                raise KafkaStorageError(
                    f"job {job.id}: entry [{entry.start}, {entry.end}) is set aside in part"
                )
            return reason or "set aside"
    return None


def _size_at(entries: Sequence[IndexEntry], number: int, offset: int) -> int:
    """The stream's running size at an offset of one of these entries; exact at its end."""
    entry = entries[number]
    before = entries[number - 1].size if number else entry.size - entry.length
    return entry.size - (entry.size - before) * (entry.end - offset) // (entry.end - entry.start)


def entry_of(file: DataFile, size: int = 0, created_ms: int = 0) -> IndexEntry:
    """A file's index entry."""
    return IndexEntry(
        start=file.start,
        end=file.end,
        kind=file.kind,
        length=file.size,
        size=size,
        max_timestamp=file.max_timestamp,
        created_ms=created_ms,
        store=file.store,
        key=file.key,
        delete_horizon_ms=file.delete_horizon_ms,
    )
