"""Column statistics of a file, from the process that wrote it to the commit."""

import base64
from functools import cache
from typing import Any, Final

import msgspec
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.typedef import Record

from headwater.log.read.parquet.footer import ColumnChunk, FooterDescription, width_of
from headwater.tables.schema import ICEBERG

STATISTICS: Final = ("partition", "offset", "timestamp", "producer_id")
"""Columns with minimum and maximum values in files and tables."""

METRICS: Final = {
    "write.metadata.metrics.default": "none",
    **{f"write.metadata.metrics.column.{name}": "full" for name in STATISTICS},
}


SPLIT_BYTES: Final = 16 * 2**20
"""Minimum distance of the offsets at which engines may split a file. Listing every row group would
make manifests several times larger."""


class _Statistics(msgspec.Struct, kw_only=True):
    """The content of ``DataFile.stats``, as JSON; bounds are Iceberg's bytes in base64."""

    partition: list[int | None]
    """The values of the table's partition fields."""
    record_count: int
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, str]
    upper_bounds: dict[int, str]
    split_offsets: list[int]


@cache
def _plan() -> tuple[Any, Any]:
    return compute_statistics_plan(ICEBERG, METRICS), parquet_path_to_id_mapping(ICEBERG)


def encode_statistics(footer: Any, partition: tuple[int | None, ...]) -> bytes:
    """The statistics in a ``pyarrow.parquet.FileMetaData``, for ``DataFile.stats``."""
    plan, columns = _plan()
    found = data_file_statistics_from_parquet_metadata(footer, plan, columns).to_serialized_dict()
    for name in ("lower_bounds", "upper_bounds"):
        found[name] = {
            field: base64.b64encode(value).decode() for field, value in found[name].items()
        }
    found["split_offsets"] = _spread(found["split_offsets"])
    return msgspec.json.encode(_Statistics(partition=list(partition), **found))


def described_statistics(footer: FooterDescription, partition: tuple[int | None, ...]) -> bytes:
    """As ``encode_statistics``, for a file that may be damaged, without Arrow.

    Raises ``KeyError`` if it has a column that tables do not have.
    """
    _, columns = _plan()
    by_field: dict[int, list[ColumnChunk]] = {}
    for group in footer.groups:
        for column in group.columns:
            by_field.setdefault(columns[".".join(column.path)], []).append(column)
    kept = {field: by_field[field] for field in map(_field_id, STATISTICS) if field in by_field}
    bounded = {
        field: ([one.bounds for one in own if one.bounds is not None], width_of(own[0]))
        for field, own in kept.items()
        if all(one.bounds is not None for one in own)
    }
    found = _Statistics(
        partition=list(partition),
        record_count=sum(group.rows for group in footer.groups),
        column_sizes={field: sum(one.length for one in own) for field, own in by_field.items()},
        value_counts={field: sum(one.values for one in own) for field, own in kept.items()},
        null_value_counts={
            field: sum(one.nulls or 0 for one in kept[field])
            for field in bounded
            if any(one.nulls is not None for one in kept[field])
        },
        nan_value_counts={},
        lower_bounds={
            field: _bound(min(least for least, _ in bounds), width)
            for field, (bounds, width) in bounded.items()
        },
        upper_bounds={
            field: _bound(max(greatest for _, greatest in bounds), width)
            for field, (bounds, width) in bounded.items()
        },
        split_offsets=_spread(sorted(group.columns[0].first_byte for group in footer.groups)),
    )
    return msgspec.json.encode(found)


def _field_id(name: str) -> int:
    return ICEBERG.find_field(name).field_id


def _bound(value: int, width: int) -> str:
    return base64.b64encode(value.to_bytes(width, "little", signed=True)).decode()


def _spread(offsets: list[int]) -> list[int]:
    kept: list[int] = []
    for offset in offsets:
        if not kept or offset - kept[-1] >= SPLIT_BYTES:
            kept.append(offset)
    return kept


def iceberg_file(
    stats: bytes, *, location: str, size: int, spec_id: int, sort_order_id: int | None
) -> IcebergFile:
    """The manifest entry of a file with these statistics."""
    found = msgspec.json.decode(stats, type=_Statistics)
    return IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(*found.partition),
        record_count=found.record_count,
        file_size_in_bytes=size,
        column_sizes=found.column_sizes,
        value_counts=found.value_counts,
        null_value_counts=found.null_value_counts,
        nan_value_counts=found.nan_value_counts,
        lower_bounds={field: base64.b64decode(text) for field, text in found.lower_bounds.items()},
        upper_bounds={field: base64.b64decode(text) for field, text in found.upper_bounds.items()},
        split_offsets=found.split_offsets,
        sort_order_id=sort_order_id,
        spec_id=spec_id,
        equality_ids=None,
        key_metadata=None,
    )
