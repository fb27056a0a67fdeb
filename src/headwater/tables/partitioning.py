"""Iceberg partition specs and sort order of tables."""

from collections.abc import Sequence
from typing import Any, Final

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    YearTransform,
)

from headwater.tables.schema import ICEBERG, OFFSET_ID
from headwater.topic_config.table import PartitionTerm, parse_partitioning

SORT_ORDER: Final = SortOrder(SortField(source_id=OFFSET_ID, transform=IdentityTransform()))
"""Files are sorted by offset, and contain one stream."""

_SIMPLE: Final[dict[str, Any]] = {
    "identity": IdentityTransform,
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
}


def partition_spec(partitioning: str) -> PartitionSpec:
    """The spec for ``headwater.table.partition-by``."""
    return PartitionSpec(*_fields(parse_partitioning(partitioning)))


def _fields(terms: Sequence[PartitionTerm]) -> list[PartitionField]:
    return [
        PartitionField(
            source_id=ICEBERG.find_field(term.column).field_id,
            field_id=PARTITION_FIELD_ID_START + number,
            transform=_transform(term),
            name=term.name,
        )
        for number, term in enumerate(terms)
    ]


def _transform(term: PartitionTerm) -> Transform[Any, Any]:
    if term.argument is not None:
        return BucketTransform(term.argument)
    transform: Transform[Any, Any] = _SIMPLE[term.transform]()
    return transform
