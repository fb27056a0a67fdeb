"""Key compaction of files in a Spark task: keep the last record of each key.

Arrow compares complete keys, not hashes, so different keys are never confused.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.log.formats.metadata_values import IndexEntry
from headwater.pipeline.compaction.range_task import KeyCompaction
from headwater.pipeline.fsck.check_task import COLUMNS
from headwater.pipeline.object_reads import ObjectReads
from headwater.pipeline.source.filters import ReadFilter
from headwater.pipeline.source.read import read_entries
from headwater.pipeline.upkeep.key_compaction_plan import NO_TOMBSTONES, is_due

FOLD_BYTES: Final = 64 * 2**20
"""Bytes of keys that are collected before duplicate keys are removed."""


class KeyCompactor:
    """Filters records, and computes the delete horizon of the kept tombstones."""

    def __init__(self, rules: KeyCompaction, reads: ObjectReads, partition: int) -> None:
        self._rules = rules
        self._reads = reads
        self._partition = partition
        self._keys, self._last = _last_offsets(self._columns(rules.dirty, 0, ("offset", "key")))
        self.horizon_ms = NO_TOMBSTONES

    def records(self, entries: Sequence[IndexEntry], keep_from: int) -> Iterator[Any]:
        """The kept records of these entries, in order."""
        for entry in entries:
            keep = self._kept(entry, keep_from)
            position = 0
            for batch in self._columns([entry], keep_from, COLUMNS):
                mask = keep[position : position + batch.num_rows]
                position += batch.num_rows
                if mask.any():
                    kept = batch if mask.all() else batch.filter(pa.array(mask))
                    self._note_tombstones(entry, kept)
                    yield kept

    def _kept(self, entry: IndexEntry, keep_from: int) -> NDArray[np.bool_]:
        """A mask of the rows to keep."""
        batches = list(self._columns([entry], keep_from, ("offset", "key", "value")))
        if not batches:
            return np.zeros(0, np.bool_)
        table = pa.Table.from_batches(batches)
        keys = table.column("key").combine_chunks()
        offsets = table.column("offset").to_numpy()
        position = pc.index_in(keys, value_set=self._keys).fill_null(-1).to_numpy()
        last = self._last[position] if len(self._last) else np.full(len(position), -1)
        keep: NDArray[np.bool_] = (position < 0) | (offsets >= last)
        keep &= pc.is_valid(keys).to_numpy(zero_copy_only=False)
        if self._rules.drops_tombstones and is_due(entry, self._rules.now_ms):
            keep &= pc.is_valid(table.column("value").combine_chunks()).to_numpy(
                zero_copy_only=False
            )
        return keep

    def _note_tombstones(self, entry: IndexEntry, kept: Any) -> None:
        if kept.column("value").null_count:
            own = entry.delete_horizon_ms
            waits = own if own > 0 else self._rules.horizon_ms
            self.horizon_ms = max(self.horizon_ms, waits)

    def _columns(
        self, entries: Sequence[IndexEntry], keep_from: int, columns: Sequence[str]
    ) -> Iterator[Any]:
        if not entries:
            return iter(())
        low, high = max(entries[0].start, keep_from), entries[-1].end
        return read_entries(entries, self._reads, self._partition, low, high, columns, ReadFilter())


def _last_offsets(batches: Iterator[Any]) -> tuple[Any, NDArray[np.int64]]:
    """Every key once, and its last offset."""
    folded: list[Any] = []
    size = 0
    for batch in batches:
        folded.append(pa.table({"key": batch.column("key"), "offset": batch.column("offset")}))
        size += folded[-1].nbytes
        if size > FOLD_BYTES:
            folded, size = [_fold(folded)], 0
    if not folded:
        return pa.array([], pa.binary()), np.zeros(0, np.int64)
    table = _fold(folded)
    keys = table.column("key").combine_chunks()
    return keys, table.column("offset").to_numpy()


def _fold(tables: Sequence[Any]) -> Any:
    table = pa.concat_tables(tables)
    table = table.filter(pc.is_valid(table.column("key")))
    found = table.group_by("key").aggregate([("offset", "max")])
    return pa.table({"key": found.column("key"), "offset": found.column("offset_max")})
