"""Rules for the topic configurations about tables.

>>> parse_partitioning("partition, day(timestamp), bucket(16, key)")[2]
PartitionTerm(transform='bucket', column='key', argument=16)
"""

import re
from dataclasses import dataclass
from typing import Final

COMPACT_TO: Final = ("parquet", "segment", "both", "none")

LOG_PARTITIONING: Final = "partition"
"""The partitioning of a table whose files are the log."""

TIME_TRANSFORMS: Final = ("year", "month", "day", "hour")
MAX_BUCKETS: Final = 10_000

_TERM = re.compile(r"\s*(?:(partition)|(\w+)\s*\(\s*(?:(\d{1,9})\s*,\s*)?(\w+)\s*\))\s*(?:,|$)")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,255}(\.[A-Za-z0-9_-]{1,255}){1,8}")
_ALLOWED = (
    "a list of partition, year(timestamp), month(timestamp), day(timestamp), hour(timestamp) "
    "and bucket(N, key)"
)


@dataclass(frozen=True, slots=True)
class PartitionTerm:
    """One term of a partitioning: a transform of a column."""

    transform: str
    """``identity``, one of ``TIME_TRANSFORMS``, or ``bucket``."""
    column: str
    argument: int | None = None
    """The number of buckets."""

    @property
    def name(self) -> str:
        """The name of the partition field, as other Iceberg writers choose it."""
        return self.column if self.transform == "identity" else f"{self.column}_{self.transform}"


def parse_partitioning(text: str) -> tuple[PartitionTerm, ...]:
    """Parse ``headwater.table.partition-by``. Raises ``ValueError`` with the reason."""
    terms: list[PartitionTerm] = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise ValueError(f"it must be {_ALLOWED}, which {text[position:]!r} is not")
        terms.append(_term(*match.groups()))
        position = match.end()
    if not terms or text.rstrip().endswith(","):
        raise ValueError(f"it must be {_ALLOWED}")
    if len({term.name for term in terms}) != len(terms):
        raise ValueError("it has a transform of one column twice")
    return tuple(terms)


def _term(identity: str | None, transform: str, argument: str | None, column: str) -> PartitionTerm:
    if identity:
        return PartitionTerm("identity", identity)
    if transform in TIME_TRANSFORMS and column == "timestamp" and argument is None:
        return PartitionTerm(transform, column)
    if transform == "bucket" and column == "key" and argument is not None:
        buckets = int(argument)
        if not 1 <= buckets <= MAX_BUCKETS:
            raise ValueError(f"a bucket's number must be between 1 and {MAX_BUCKETS}")
        return PartitionTerm(transform, column, buckets)
    raise ValueError(f"it must be {_ALLOWED}, which {transform}(... {column}) is not")


def check_partitioning(text: str) -> None:
    """Raises ``ValueError`` with the reason if ``text`` is not a partitioning."""
    parse_partitioning(text)


def is_log_partitioning(text: str) -> bool:
    """Whether the files of a table with this partitioning can be the log.

    >>> is_log_partitioning(" partition ")
    True
    """
    return parse_partitioning(text) == parse_partitioning(LOG_PARTITIONING)


def check_table_name(text: str) -> None:
    """Raises ``ValueError`` unless ``text`` is empty or a table's full name."""
    if text and _NAME.fullmatch(text) is None:
        raise ValueError(
            "it must be namespace.table, of letters, digits, _ and -, or empty for the template; "
            "a namespace may have more than one part"
        )
