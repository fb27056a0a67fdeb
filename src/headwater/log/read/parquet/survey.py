"""What a restore reads from a table's file: note, rows, producers (extra ``table``).

Runs off the event loop. Footers are parsed as for reading (``rows``), so a damaged file raises an
error and cannot end the process.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from headwater.log.formats.file_notes import NOTES, FileNotes, decode_notes
from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.read.parquet.rows import Footer, parse_footer, read_columns
from headwater.log.read.sources import Extent

PRODUCERS: Final = ["offset", "producer_id", "producer_epoch", "base_sequence"]


@dataclass(frozen=True, slots=True)
class ParquetSurvey:
    """A file's footer and its content."""

    footer: Footer
    notes: FileNotes | None
    rows: int
    max_timestamp: int


@dataclass(slots=True)
class ProducedRun:
    """Rows of one batch of an idempotent producer."""

    first: int
    last: int
    producer_id: int
    epoch: int
    base_sequence: int


def survey(tail: bytearray, entry: IndexEntry) -> ParquetSurvey:
    """Raises ``CorruptMessage`` if the footer does not fit its entry."""
    footer = parse_footer(tail, entry)
    texts = footer.metadata.metadata or {}
    note = texts.get(NOTES.encode())
    times = [extent.max_timestamp for extent in footer.extents if extent.row_group >= 0]
    return ParquetSurvey(
        footer,
        None if note is None else decode_notes(note),
        footer.metadata.num_rows,
        max(times, default=-1),
    )


def produced_runs(footer: Footer, extent: Extent, data: bytearray) -> Iterator[ProducedRun]:
    """The batches of idempotent producers in one row group, from their remaining rows."""
    offsets, producers, epochs, sequences = read_columns(footer, extent, data, PRODUCERS)
    changes = (np.diff(producers) != 0) | (np.diff(epochs) != 0) | (np.diff(sequences) != 0)
    firsts = [0, *(np.flatnonzero(changes) + 1).tolist()]
    for first, after in zip(firsts, [*firsts[1:], len(offsets)], strict=True):
        if producers[first] >= 0:
            yield ProducedRun(
                int(offsets[first]),
                int(offsets[after - 1]),
                int(producers[first]),
                int(epochs[first]),
                int(sequences[first]),
            )
