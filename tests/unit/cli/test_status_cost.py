from typing import Any

import pytest

from headwater.cli.status.cost import EXAMPLE, S3_STANDARD, BrokerLoad, Prices, bill, daily_load


def page(uptime: float, **asked: int) -> dict[str, Any]:
    nothing = {"puts": 0, "gets": 0, "lists": 0, "bytes_written": 0, "bytes_read": 0}
    return {"uptime_s": uptime, "objects": nothing | asked}


def test_each_broker_counts_at_its_own_pace() -> None:
    load = daily_load([page(60, puts=240, gets=6), page(3600, lists=12, bytes_read=100)], 5e9)
    assert load == BrokerLoad(
        stored_bytes=5e9,
        writes=240 * 1440 + 12 * 24,
        reads=6 * 1440,
        bytes_written=0,
        bytes_read=2400,
    )


def test_no_broker_makes_no_bill() -> None:
    assert daily_load([], 1.0) is None


def test_four_puts_a_second_cost_what_s3_asks_for_them() -> None:
    load = daily_load([page(10, puts=40)], 0)
    assert load is not None
    storage, writes, reads, total = bill(load, S3_STANDARD)
    assert writes.dollars == pytest.approx(4 * 86_400 * 30 * 0.005 / 1000)
    assert (storage.dollars, reads.dollars) == (0, 0)
    assert total.dollars == writes.dollars


def test_the_example_is_the_table_that_it_was_taken_from() -> None:
    lines = [
        (line.item, line.calculation, round(line.dollars, 2)) for line in bill(EXAMPLE, S3_STANDARD)
    ]
    assert lines == [
        ("Storage", "700.00 GB x $0.023", 16.1),
        ("Writes", "25,000/day x 30 x $0.005/1000", 3.75),
        ("Reads", "100,000/day x 30 x $0.0004/1000", 1.2),
        ("Total", "", 21.05),
    ]


def test_prices_are_the_operators_own() -> None:
    assert bill(EXAMPLE, Prices(0, 0, 0))[-1].dollars == 0
