"""Writing a range of a stream to files of a table that is a copy of the log, with partitions."""

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from headwater.log.jobs.jobs import DataFile
from headwater.tables.files.parquet import ROW_GROUP_BYTES, FileTarget, RangeFile
from headwater.tables.files.row_groups import row_groups
from headwater.tables.files.transforms import Values, split_by_partition
from headwater.tables.schema import to_table
from headwater.topic_config.table import parse_partitioning

MAX_OPEN: Final = 64
"""Maximum open files. If records alternate between many partitions, a partition gets several."""


def write_copies(
    batches: Iterable[Any], target: FileTarget, partitioning: str, *, max_open: int = MAX_OPEN
) -> list[DataFile]:
    """As ``write_range``, with a file for each table partition of the records.

    A number is added to the target's key for each file. Each file has the complete range. Without
    records there is no file. Raises as ``write_range``; files that were finished before an error
    stay, and no table refers to them.
    """
    terms = parse_partitioning(partitioning)
    stem = target.key.removesuffix(".parquet")
    opened: OrderedDict[Values, tuple[RangeFile, ExitStack]] = OrderedDict()
    finished: list[DataFile] = []
    started = 0

    def finish(values: Values) -> None:
        file, stack = opened.pop(values)
        stack.close()
        finished.append(file.written())

    with ExitStack() as everything:
        for table in row_groups(map(to_table, batches), ROW_GROUP_BYTES):
            for values, rows in split_by_partition(table.combine_chunks().to_batches()[0], terms):
                if values not in opened:
                    if len(opened) == max_open:
                        finish(next(iter(opened)))
                    stack = everything.enter_context(ExitStack())
                    own = replace(target, key=f"{stem}p{started}.parquet")
                    opened[values] = (stack.enter_context(RangeFile.create(own, values)), stack)
                    started += 1
                opened.move_to_end(values)
                opened[values][0].add(pa.Table.from_batches([rows]))
        for values in list(opened):
            finish(values)
    return finished
