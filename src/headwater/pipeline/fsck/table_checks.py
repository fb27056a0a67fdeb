"""Comparison of a topic's table with its index, if the table is the log."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.errors import TableMismatch
from headwater.log.formats.metadata_values import PARQUET, IndexEntry
from headwater.log.jobs.jobs import INDEX_SWAPPED, Job
from headwater.pipeline.cluster_stores import ClusterStores
from headwater.pipeline.metadata_reads import StoredTopic
from headwater.tables.names import dotted

_RANGE = re.compile(r".*/(\d+)/(\d+)-(\d+)-[^/]*")


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file in the table's current snapshot."""

    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class TableCopy:
    """A consistent copy of a table: files by object key, and watermarks by stream."""

    name: str
    files: Mapping[str, TableFile]
    watermarks: Mapping[int, int]


@dataclass(slots=True)
class LogCopy:
    """The content that a topic's table should have, by the log."""

    entries: dict[str, tuple[int, IndexEntry]] = field(default_factory=dict)
    """By file: the stream and its index entry."""
    rows: dict[str, int] = field(default_factory=dict)
    """By file: the rows in its footer, if it could be read."""
    log_starts: dict[int, int] = field(default_factory=dict)
    """By partition."""
    jobs: list[Job] = field(default_factory=list)
    """Open jobs, whose files may or may not be in the table."""

    def add(self, stream: int, partition: int, log_start: int, found: Sequence[IndexEntry]) -> None:
        self.log_starts[partition] = log_start
        for entry in found:
            if entry.kind == PARQUET:
                self.entries[entry.key] = (stream, entry)


def read_table(stores: ClusterStores, topic: StoredTopic) -> TableCopy | None:
    """Read a topic's table; None if it does not exist. Blocks.

    Raises ``CatalogUnavailable``, or ``TableMismatch`` if the table does not match its topic.
    """
    from headwater.tables.catalog.errors import catalog_errors
    from headwater.tables.commit.live_files import every_live_file
    from headwater.tables.commit.watermarks import watermarks
    from headwater.tables.locations import object_key
    from headwater.tables.topic_tables import load_table

    wanted = stores.tables.table(topic)
    name = dotted(wanted.name)
    if not wanted.exists:
        return None
    table = load_table(wanted)
    with catalog_errors(f"table {name}"):
        try:
            live = every_live_file(table)
        except FileNotFoundError as error:
            raise TableMismatch(f"table {name} lacks a part of its metadata: {error}") from error
    files = {
        object_key(wanted.objects_url, location) or location: TableFile(
            file.record_count, file.file_size_in_bytes
        )
        for location, file in live.items()
    }
    return TableCopy(name, files, watermarks(table.properties))


def table_problems(table: TableCopy | None, log: LogCopy) -> Iterator[str]:
    """Differences between a table and the log; none if both have the same files."""
    moving = {
        key
        for job in log.jobs
        if job.state != INDEX_SWAPPED
        for key in (*job.inputs, *(file.key for file in job.files))
    }
    files: Mapping[str, TableFile] = {} if table is None else table.files
    if table is None and any(log.rows.get(key, 1) for key in log.entries):
        yield f"the table is missing, and the log has {len(log.entries)} of its files"
        return
    for key, (stream, entry) in log.entries.items():
        there, rows = files.get(key), log.rows.get(key)
        if there is None:
            # A file without rows is not appended to the table.
            if rows != 0 and key not in moving:
                yield f"it lacks {key}, which is in the log"
            continue
        if there.size != entry.length:
            yield f"it lists {key} with {there.size} bytes, and the log with {entry.length}"
        if rows is not None and there.rows != rows:
            yield f"it lists {key} with {there.rows} records, and the file has {rows}"
        if table is not None and table.watermarks.get(stream, 0) < entry.end:
            mark = table.watermarks.get(stream, 0)
            yield f"its watermark of stream {stream} is {mark}, and it has files up to {entry.end}"
    for key in files.keys() - log.entries.keys() - moving:
        if not below_log_start(key, log.log_starts):
            yield f"it has {key}, which is not in the log"


def below_log_start(key: str, log_starts: Mapping[int, int]) -> bool:
    """Whether all records of a file are deleted, so that it will leave its table."""
    found = _RANGE.fullmatch(key)
    return found is not None and int(found[3]) <= log_starts.get(int(found[1]), -1)
