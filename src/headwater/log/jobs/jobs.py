"""Jobs of the pipeline: replacing a range of one stream by files, as a saga kept in metadata.

    CREATED → PARQUET_WRITTEN → ICEBERG_COMMITTED → INDEX_SWAPPED → done, its key deleted

A stream has at most one open job. Any process may continue it at any step. Each step is a
transaction over the job's key that compares the state before it, so repeating a step changes
nothing. ``swap`` is the step to INDEX_SWAPPED, and ``steps`` runs them all.

Invariants:

- While a job is open, index entries end where its range begins and ends. Its creation compares and
  increments the generation of the layout, so a merge that was planned before loses. A merge that is
  planned later leaves the range alone.
- The step to PARQUET_WRITTEN fixes the one manifest, and writes an object record for each of its
files
  in the same transaction. A file without a record whose job is not CREATED will never have one, and
  may be deleted. A file with a record is deleted only through a release list.
- Attempts at one job never share a file's key, so their files cannot be mixed up.
- If a manifest is too large for one transaction, it ends early, and its job with it. The rest of
the
  range stays as it was and is planned again.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from headwater.errors import KafkaStorageError
from headwater.log.formats.metadata_values import PARQUET, SEGMENT, Layout, ObjectRecord, Tail
from headwater.log.reclaim.releases import INDEX_SUFFIX, SEGMENT_SUFFIX, object_keys
from headwater.meta import keys
from headwater.meta.store import Decide, Values, Writes
from headwater.meta.values import Value, decode, encode

CREATED = 0
PARQUET_WRITTEN = 1
ICEBERG_COMMITTED = 2
INDEX_SWAPPED = 3

TABLES = "tables/"

OPERATIONS_PER_STEP = 5
"""Writes of a step besides those for files and parts: job, layout, releases, a range."""
OPERATIONS_PER_ENTRY = 2
"""Writes of a swap for one index entry: the put, and the deletion around it."""


class ManifestTooLarge(KafkaStorageError):
    """Raised if not even the first part of a manifest fits into a transaction of the store."""


class DataFile(msgspec.Struct, kw_only=True):
    """One file of a manifest, with all kept records of ``[start, end)``, sorted by offset."""

    key: str
    store: str
    size: int
    """Bytes."""
    rows: int
    start: int
    end: int
    min_timestamp: int
    max_timestamp: int
    """Milliseconds; -1 if there is no row."""
    stats: bytes = b""
    """The table's column statistics; opaque to the log."""
    kind: int = PARQUET
    """Of its index entry: PARQUET or SEGMENT."""
    delete_horizon_ms: int = 0
    """Of its index entry."""


class Job(Value):
    """One open job; see this module."""

    id: str
    kind: str
    """``compact``, ``rewrite`` and so on."""
    stream: int
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    created_ms: int
    state: int = CREATED
    files: list[DataFile] = msgspec.field(default_factory=list)
    inputs: list[str] = msgspec.field(default_factory=list)
    """The files that a rewrite removes from the table."""
    set_aside: list[tuple[int, int, str]] = msgspec.field(default_factory=list)
    """(start, end, reason) of the ranges that keep their index entries."""
    copies: list[DataFile] = msgspec.field(default_factory=list)
    """Files for a table that is a copy of the log; they never get index entries."""


def data_file_key(job: Job, start: int, end: int, attempt: str, kind: int = PARQUET) -> str:
    """A file's key. ``attempt`` (letters and digits) is different for each attempt to write it."""
    folder, suffix = ("segments", SEGMENT_SUFFIX) if kind == SEGMENT else ("data", ".parquet")
    name = f"{start:020d}-{end:020d}-{job.id}-{attempt}{suffix}"
    return f"{TABLES}{job.topic_id}/{folder}/{job.partition}/{name}"


_FILE = re.compile(
    rf"{TABLES}([^/]+)/(?:data|segments)/(\d+)/(\d+)-(\d+)-(\w+)-\w+"
    rf"(\.parquet|\{SEGMENT_SUFFIX}|\{INDEX_SUFFIX})"
)
_COPY = re.compile(r".*-[0-9a-f]+p\d+\.parquet")


@dataclass(frozen=True, slots=True)
class FileName:
    """What the key of a job's file says."""

    topic_id: str
    partition: int
    start: int
    end: int
    job: str
    suffix: str
    is_copy: bool
    """Whether it has only some records of its range, for a table that is a copy of the log."""


def parse_file_key(key: str) -> FileName | None:
    """The parts of a file's key; None if it is not the key of a job's file."""
    found = _FILE.fullmatch(key)
    if found is None:
        return None
    topic_id, partition, start, end, job, suffix = found.groups()
    is_copy = _COPY.fullmatch(key) is not None
    return FileName(topic_id, int(partition), int(start), int(end), job, suffix, is_copy)


def job_of_file(key: str) -> str | None:
    """The id of the job that a file was written for; None if it is not a job's file."""
    found = parse_file_key(key)
    return None if found is None else found.job


def check_manifest(
    job: Job, files: Sequence[DataFile], set_aside: Sequence[tuple[int, int, str]]
) -> None:
    """Raises ``ValueError`` unless files and quarantined ranges cover the job's range."""
    parts = sorted(
        [(file.start, file.end) for file in files] + [(start, end) for start, end, _ in set_aside]
    )
    offset = job.start
    for start, end in parts:
        if start != offset or end <= start:
            raise ValueError(f"job {job.id}: a part [{start}, {end}) where {offset} is next")
        offset = end
    if offset != job.end:
        raise ValueError(f"job {job.id}: its parts end at {offset}, it ends at {job.end}")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What replaces a job's range, or its first part."""

    files: Sequence[DataFile]
    set_aside: Sequence[tuple[int, int, str]] = ()
    copies: Sequence[DataFile] = ()

    @property
    def end(self) -> int:
        """Where its range ends."""
        return max([file.end for file in self.files] + [end for _, end, _ in self.set_aside])


def fit_manifest(manifest: Manifest, operations: int | None) -> Manifest:
    """The first parts of a manifest that every step of its job can write in one transaction.

    Raises ``ManifestTooLarge`` if not even the first part fits.
    """
    if operations is None:
        return manifest
    parts = sorted(
        [(file.start, file.end, len(object_keys(file.kind, file.key))) for file in manifest.files]
        + [(start, end, 0) for start, end, _ in manifest.set_aside]
    )
    left = operations - OPERATIONS_PER_STEP
    taken: int | None = None
    for start, end, objects in parts:
        copies = sum(start <= copy.start < end for copy in manifest.copies)
        left -= max(OPERATIONS_PER_ENTRY, objects + copies)
        if left < 0:
            break
        taken = end
    if taken is None:
        raise ManifestTooLarge(
            f"one file needs {operations - left} writes, and the metadata store takes "
            f"{operations} at once: let headwater.table.partition-by make fewer files, or the "
            "store take more"
        )
    return Manifest(
        [file for file in manifest.files if file.end <= taken],
        [part for part in manifest.set_aside if part[1] <= taken],
        [copy for copy in manifest.copies if copy.start < taken],
    )


def create_job(job: Job, generation: int) -> Decide[Job | None]:
    """Open a job planned under this generation of the layout; reads ``creation_keys``.

    The result is the stream's open job, which may be another process's. It is None if the plan is
    stale: the index was rearranged, the topic was deleted, or the range is not stable yet.
    """

    def decide(values: Values) -> tuple[Writes, Job | None]:
        writes = Writes()
        if (there := values[keys.job(0, job.stream)]) is not None:
            return writes, decode(Job, there.value)
        tail_entry, layout_entry = (
            values[keys.tail(0, job.stream)], values[keys.layout(0, job.stream)]
        )  # fmt: skip
        tail = Tail() if tail_entry is None else decode(Tail, tail_entry.value)
        layout = Layout() if layout_entry is None else decode(Layout, layout_entry.value)
        if tail.deleted or job.end > tail.last_stable or layout.generation != generation:
            return writes, None
        layout.generation += 1
        writes.put(keys.layout(0, job.stream), encode(layout))
        writes.put(keys.job(0, job.stream), encode(job))
        return writes, job

    return decide


def creation_keys(stream: int) -> list[str]:
    """What ``create_job`` reads."""
    return [keys.job(0, stream), keys.tail(0, stream), keys.layout(0, stream)]


def fix_manifest(job: Job, manifest: Manifest, now_ms: int) -> Decide[Job | None]:
    """CREATED → PARQUET_WRITTEN with this manifest; reads the job's key.

    The job ends where its manifest ends. Returns the job as it is stored, which may have the
    manifest of another attempt; None if the job is over.
    """
    end = manifest.end
    check_manifest(msgspec.structs.replace(job, end=end), manifest.files, manifest.set_aside)

    def decide(values: Values) -> tuple[Writes, Job | None]:
        writes = Writes()
        there = _same_job(values, job)
        if there is None or there.state != CREATED:
            return writes, there
        there.state = PARQUET_WRITTEN
        there.end = end
        there.files = list(manifest.files)
        there.set_aside = list(manifest.set_aside)
        there.copies = list(manifest.copies)
        # If the job ends early, the input files behind its end also stay in the table.
        there.inputs = [key for key in there.inputs if not _starts_at(key, end)]
        writes.put(keys.job(0, job.stream), encode(there))
        for file in (*manifest.files, *manifest.copies):
            for key in object_keys(file.kind, file.key):
                record = ObjectRecord(size=file.size, parts=1, live=[job.stream], created_ms=now_ms)
                writes.put(keys.object_record(0, key, 0), encode(record))
        return writes, there

    return decide


def _starts_at(key: str, offset: int) -> bool:
    """Whether a file begins at an offset or after it."""
    name = parse_file_key(key)
    return name is not None and name.start >= offset


def mark_committed(job: Job) -> Decide[Job | None]:
    """PARQUET_WRITTEN → ICEBERG_COMMITTED: the table has the manifest; reads the job's key."""

    def decide(values: Values) -> tuple[Writes, Job | None]:
        writes = Writes()
        there = _same_job(values, job)
        if there is not None and there.state == CREATED:
            raise ValueError(f"job {job.id} has no manifest that a table could hold")
        if there is not None and there.state == PARQUET_WRITTEN:
            there.state = ICEBERG_COMMITTED
            writes.put(keys.job(0, job.stream), encode(there))
        return writes, there

    return decide


def finish_job(job: Job) -> Decide[None]:
    """INDEX_SWAPPED → done; reads the job's key."""

    def decide(values: Values) -> tuple[Writes, None]:
        writes = Writes()
        there = _same_job(values, job)
        if there is not None:
            if there.state != INDEX_SWAPPED:
                raise ValueError(f"job {job.id} is not finished: its state is {there.state}")
            writes.delete(keys.job(0, job.stream))
        return writes, None

    return decide


def give_up_job(job: Job) -> Decide[Job | None]:
    """Close a job that has no manifest yet; reads the job's key.

    Returns the job if its manifest is already fixed: then it must be finished.
    """

    def decide(values: Values) -> tuple[Writes, Job | None]:
        writes = Writes()
        there = _same_job(values, job)
        if there is None or there.state != CREATED:
            return writes, there
        writes.delete(keys.job(0, job.stream))
        return writes, None

    return decide


def _same_job(values: Values, job: Job) -> Job | None:
    entry = values[keys.job(0, job.stream)]
    there = None if entry is None else decode(Job, entry.value)
    return there if there is not None and there.id == job.id else None
