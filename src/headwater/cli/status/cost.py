"""The monthly cost of a cluster's object store, from its brokers' request counts.

Storage is priced per gigabyte and requests per thousand, for a month of 30 days. Deletes and
transfer within the region are free. ``EXAMPLE`` is a cluster from a published cost table; it is
priced in the same way and shown beside the own one.
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
    """Per gigabyte and month."""
    writes: float
    """Per thousand PUT, POST and LIST requests."""
    reads: float
    """Per thousand GET and HEAD requests."""


S3_STANDARD = Prices(storage=0.023, writes=0.005, reads=0.0004)
"""In us-east-1."""


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """Stored bytes, and requests and bytes per day."""

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
    """One item of a bill: its calculation, and dollars per month."""

    item: str
    calculation: str
    dollars: float


def bill(load: BrokerLoad, prices: Prices) -> list[Line]:
    """The items of a monthly bill; the last one is the total.

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
    """The daily load, extrapolated from each broker's uptime; None without brokers."""
    rates = [
        (DAY / page["uptime_s"], page["objects"]) for page in pages if page.get("uptime_s", 0) > 0
    ]
    if not rates:
        return None
    return BrokerLoad(
        stored_bytes=stored_bytes,
        writes=sum(rate * (asked["puts"] + asked["lists"]) for rate, asked in rates),
        reads=sum(rate * asked["gets"] for rate, asked in rates),
        bytes_written=sum(rate * asked["bytes_written"] for rate, asked in rates),
        bytes_read=sum(rate * asked["bytes_read"] for rate, asked in rates),
    )


def print_bill(
    own: Sequence[Line], example: Sequence[Line], load: BrokerLoad, *, paid: bool
) -> None:
    """Both bills side by side."""
    print_table(
        ["Item", "This cluster", "Per month", f"Example: {EXAMPLE_TITLE}", "Per month"],
        [
            (mine.item, mine.calculation, dollars(mine), theirs.calculation, dollars(theirs))
            for mine, theirs in zip(own, example, strict=True)
        ],
        title="Object store, extrapolated from the time since the brokers started"
        + ("" if paid else " (a local store is free; on S3 there would be fewer requests)"),
    )
    print_table(
        ["Transferred", "Per day"],
        [("Written", byte_size(load.bytes_written)), ("Read", byte_size(load.bytes_read))],
    )


def dollars(line: Line) -> str:
    return f"${line.dollars:,.2f}"
