"""What a cluster's object store costs a month, from what its brokers asked of it.

The arithmetic is that of a cost table known from elsewhere: storage by the gigabyte, requests by
the thousand, a month of thirty days, no charge for deletes and for transfer within the region.
``EXAMPLE`` is that table's own cluster, so that both are priced alike and stand side by side.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.cli.terminal.output import byte_size, print_table

DAY = 86_400
MONTH_DAYS = 30
GB = 10**9


@dataclass(frozen=True, slots=True)
class Prices:
    """In dollars."""

    storage: float
    """Of a gigabyte for a month."""
    writes: float
    """Of a thousand PUT, POST and LIST requests."""
    reads: float
    """Of a thousand GET and HEAD requests."""


S3_STANDARD = Prices(storage=0.023, writes=0.005, reads=0.0004)
"""In us-east-1."""


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What is stored, and what is asked for in a day."""

    stored_bytes: float
    writes: float
    reads: float
    bytes_written: float = 0.0
    bytes_read: float = 0.0


EXAMPLE = BrokerLoad(stored_bytes=700 * GB, writes=25_000, reads=100_000, bytes_written=100 * GB)
"""100 GB a day, kept for seven days, in objects of 4 MB."""
EXAMPLE_TITLE = "100 GB a day, kept 7 days"


@dataclass(frozen=True, slots=True)
class Line:
    """One item of a bill: how it is counted, and dollars a month."""

    item: str
    calculation: str
    dollars: float


def bill(load: BrokerLoad, prices: Prices) -> list[Line]:
    """The items of a month; their sum is the last one.

    >>> [f"{line.item} {line.dollars:.2f}" for line in bill(EXAMPLE, S3_STANDARD)]
    ['Storage 16.10', 'Writes 3.75', 'Reads 1.20', 'Total 21.05']
    """
    gigabytes = load.stored_bytes / GB
    lines = [
        Line("Storage", f"{gigabytes:,.2f} GB x ${prices.storage:g}", gigabytes * prices.storage),
        _requests("Writes", load.writes, prices.writes),
        _requests("Reads", load.reads, prices.reads),
    ]
    return [*lines, Line("Total", "", sum(line.dollars for line in lines))]


def _requests(item: str, per_day: float, thousand: float) -> Line:
    calculation = f"{per_day:,.0f}/day x {MONTH_DAYS} x ${thousand:g}/1000"
    return Line(item, calculation, per_day * MONTH_DAYS * thousand / 1000)


def daily_load(pages: Iterable[dict[str, Any]], stored_bytes: float) -> BrokerLoad | None:
    """What brokers ask for in a day, each at the pace of its life so far; None without brokers."""
    paces = [
        (DAY / page["uptime_s"], page["objects"]) for page in pages if page.get("uptime_s", 0) > 0
    ]
    if not paces:
        return None
    return BrokerLoad(
        stored_bytes=stored_bytes,
        writes=sum(pace * (asked["puts"] + asked["lists"]) for pace, asked in paces),
        reads=sum(pace * asked["gets"] for pace, asked in paces),
        bytes_written=sum(pace * asked["bytes_written"] for pace, asked in paces),
        bytes_read=sum(pace * asked["bytes_read"] for pace, asked in paces),
    )


def print_bill(
    own: Sequence[Line], example: Sequence[Line], load: BrokerLoad, *, paid: bool
) -> None:
    """Both bills side by side."""
    print_table(
        ["Item", "This cluster", "A month", EXAMPLE_TITLE, "A month"],
        [
            (mine.item, mine.calculation, dollars(mine), theirs.calculation, dollars(theirs))
            for mine, theirs in zip(own, example, strict=True)
        ],
        title="Object store, at the pace since the brokers started"
        + ("" if paid else "; a local store costs nothing, and on S3 requests would be fewer"),
    )
    print_table(
        ["Moved", "A day"],
        [("Written", byte_size(load.bytes_written)), ("Read", byte_size(load.bytes_read))],
    )


def dollars(line: Line) -> str:
    return f"${line.dollars:,.2f}"
