"""Filters of a query, as intervals that exclude ranges from being read.

Spark checks every row again, so an interval may be wider than its filter, but never narrower.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from headwater.log.formats.metadata_values import IndexEntry

_FIRST: Final = -(2**63)
_LAST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Interval:
    """Integers from ``low`` to ``high``, inclusive."""

    low: int = _FIRST
    high: int = _LAST

    def intersect(self, low: int = _FIRST, high: int = _LAST) -> "Interval":
        return Interval(max(self.low, low), min(self.high, high))


@dataclass(frozen=True, slots=True)
class ReadFilter:
    """Bounds of the rows that a query can match; by default all rows."""

    partitions: Interval = Interval()
    offsets: Interval = Interval()
    times: Interval = Interval()
    """Microseconds."""

    def may_have(self, entry: IndexEntry) -> bool:
        """Whether a record of this entry can match."""
        after = (entry.max_timestamp + 1) * 1000
        inside = entry.end > self.offsets.low and entry.start <= self.offsets.high
        return inside and after > self.times.low


def narrow(wanted: ReadFilter, filters: Iterable[Any]) -> ReadFilter:
    """``wanted`` narrowed by more of Spark's ``Filter`` values."""
    for each in filters:
        wanted = _narrow(wanted, each)
    return wanted


def _narrow(wanted: ReadFilter, condition: Any) -> ReadFilter:
    name: Sequence[str] = getattr(condition, "attribute", ())
    if len(name) != 1 or (column := _COLUMNS.get(name[0])) is None:
        return wanted
    field, as_number = column
    bounds = _bounds(type(condition).__name__, condition, as_number)
    if bounds is None:
        return wanted
    narrower = getattr(wanted, field).intersect(*bounds)
    return replace(wanted, **{field: narrower})


def _bounds(
    kind: str, condition: Any, as_number: Callable[[Any], int | None]
) -> tuple[int, int] | None:
    if kind == "In":
        values = [as_number(value) for value in condition.value if value is not None]
        known = [value for value in values if value is not None]
        return (min(known), max(known)) if known and len(known) == len(values) else None
    if kind not in _KINDS or (value := as_number(condition.value)) is None:
        return None
    return _KINDS[kind](value)


_KINDS: Final[dict[str, Callable[[int], tuple[int, int]]]] = {
    "EqualTo": lambda value: (value, value),
    "EqualNullSafe": lambda value: (value, value),
    "GreaterThan": lambda value: (value + 1, _LAST),
    "GreaterThanOrEqual": lambda value: (value, _LAST),
    "LessThan": lambda value: (_FIRST, value - 1),
    "LessThanOrEqual": lambda value: (_FIRST, value),
}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _microseconds(value: Any) -> int | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    whole = value.replace(microsecond=0)
    return round(whole.timestamp()) * 1_000_000 + value.microsecond


_COLUMNS: Final[dict[str, tuple[str, Callable[[Any], int | None]]]] = {
    "partition": ("partitions", _whole),
    "offset": ("offsets", _whole),
    "timestamp": ("times", _microseconds),
}
