"""A Spark task of the data source: read a range of one stream as Arrow record batches.

The records of a range never change, but their objects may be replaced. If an object is missing, the
task reads the index again for the rest of its range. So a lost pin does not fail the query.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import HeadwaterError, ObjectNotFound, OffsetOutOfRange, StoreUnavailable
from headwater.log.formats.metadata_values import HOLE, PARQUET, IndexEntry
from headwater.meta.values import decode
from headwater.pipeline.object_reads import ObjectReads, open_reads
from headwater.pipeline.source.filters import ReadFilter
from headwater.pipeline.source.metadata import PIN_MS, opened, put_pins, remove_pins
from headwater.pipeline.source.ranges import StreamRange, covering, lost

if TYPE_CHECKING:
    from headwater.pipeline.source.options import SourceOptions

ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class RangeReading:
    """The parameters of a query's reads, sent to executors."""

    options: "SourceOptions"
    columns: tuple[str, ...]
    wanted: ReadFilter

    def batches(self, part: StreamRange) -> Iterator[Any]:
        """The records of a range as ``pyarrow.RecordBatch`` objects, in order.

        Raises ``DamagedChunk``, ``StoreError``, and ``OffsetOutOfRange`` if records were
        deleted during the query and ``failOnDataLoss`` is on.
        """
        if part.failure:
            raise OffsetOutOfRange(part.failure)
        from headwater.pipeline.source.record_batches import Projection

        project = Projection(self.columns, part.topic)
        reads = open_reads(self.options.objects_url)
        with contextlib.closing(reads), _pinned(self.options.metadata_url, part):
            for batch in self._found(part, reads, project.needed):
                yield project(batch)

    def _found(
        self, part: StreamRange, reads: ObjectReads, columns: Sequence[str]
    ) -> Iterator[Any]:
        entries = [decode(IndexEntry, entry) for entry in part.entries]
        position = part.start
        for _ in range(ATTEMPTS):
            try:
                for batch in read_entries(
                    entries, reads, part.partition, position, part.end, columns, self.wanted
                ):
                    yield batch
                    position = batch.column("offset")[-1].as_py() + 1
            except ObjectNotFound:
                position, entries = self._look_up(part, position)
            else:
                return
        raise StoreUnavailable(
            f"{part.name}: the objects at offset {position} are replaced faster than they can be "
            "read; try again"
        )

    def _look_up(self, part: StreamRange, position: int) -> tuple[int, list[IndexEntry]]:
        with opened(self.options.metadata_url) as store:
            log_start, found = store.run(covering(store.meta, part.stream, position, part.end))
        if log_start > position and self.options.fail_on_data_loss:
            raise lost(part.name, position, log_start)
        return max(position, log_start), [each for each in found if self.wanted.may_have(each)]


def read_entries(
    entries: Sequence[IndexEntry],
    reads: ObjectReads,
    partition: int,
    start: int,
    end: int,
    columns: Sequence[str],
    wanted: ReadFilter,
) -> Iterator[Any]:
    """The records of ``[start, end)`` in entries of any kind.

    Batches have at least ``columns``, and are never empty.
    """
    from headwater.pipeline.source.record_batches import chunk_batches, parquet_batches, trimmed

    inside = [
        entry for entry in entries if entry.end > start and entry.start < end and entry.kind != HOLE
    ]
    for is_file, run in groupby(inside, lambda entry: entry.kind == PARQUET):
        found: Iterator[Any]
        if is_file:
            found = (
                batch
                for entry in run
                for batch in parquet_batches(entry, reads, start, end, columns, wanted)
            )
        else:
            found = chunk_batches(list(run), reads, partition, start)
        for batch in found:
            kept = trimmed(batch, start, end)
            if kept.num_rows:
                yield kept
            if kept.num_rows < batch.num_rows and batch.column("offset")[-1].as_py() >= end:
                return


@contextlib.contextmanager
def _pinned(metadata_url: str, part: StreamRange) -> Iterator[None]:
    """Renew the pin of this range while it is read, then remove it.

    Ranges of a streaming query have no pin; the stream reader holds its pins.
    """
    if part.pin is None:
        yield
        return
    over = threading.Event()
    pins = [part.pin]

    def renew() -> None:
        while not over.wait(PIN_MS / 1000 / 4):
            # If the store does not answer, the next renewal is early enough.
            with contextlib.suppress(HeadwaterError), opened(metadata_url) as store:
                store.run(put_pins(store.meta, pins))

    renewal = threading.Thread(target=renew, name="headwater-pin", daemon=True)
    renewal.start()
    try:
        yield
    finally:
        over.set()
        renewal.join()
        # If this fails, the pin expires.
        with contextlib.suppress(HeadwaterError), opened(metadata_url) as store:
            store.run(remove_pins(store.meta, pins))
