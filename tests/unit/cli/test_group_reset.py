"""Where a reset moves a group, without a cluster."""

from datetime import timedelta

import click
import pytest

from headwater.cli.group.options import _ago, read_duration, read_moment, read_topic
from headwater.cli.group.reset import (
    OffsetBounds,
    Rule,
    ShiftBy,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToTime,
    out_of_range_note,
    plan,
)

PLACE = ("t", 0)


@pytest.mark.parametrize(
    ("rule", "bounds", "new"),
    [
        (ToEarliest(), OffsetBounds(3, 9), 3),
        (ToLatest(), OffsetBounds(3, 9), 9),
        (ToOffset(5), OffsetBounds(3, 9), 5),
        (ToOffset(1), OffsetBounds(3, 9), 3),
        (ToOffset(11), OffsetBounds(3, 9), 9),
        (ShiftBy(2), OffsetBounds(3, 9), 8),
        (ShiftBy(-2), OffsetBounds(3, 9), 4),
        (ShiftBy(-20), OffsetBounds(3, 9), 3),
        (ToTime(1), OffsetBounds(3, 9, at_time=7), 7),
        (ToTime(1), OffsetBounds(3, 9), 9),
    ],
)
def test_a_rule_names_an_offset_within_the_partition(
    rule: Rule, bounds: OffsetBounds, new: int
) -> None:
    (move,) = plan(rule, {PLACE: 6}, {PLACE: bounds})
    assert (move.current, move.new, move.lag) == (6, new, 9 - new)


def test_offsets_out_of_range_are_reported() -> None:
    bounds = {("t", number): OffsetBounds(3, 9) for number in range(8)}
    moves = plan(ToOffset(11), {}, bounds)
    assert [(each.asked, each.new) for each in moves] == [(11, 9)] * 8
    told = out_of_range_note(moves)
    assert told is not None
    assert told.endswith(
        "t:0 (9 for 11), t:1 (9 for 11), t:2 (9 for 11), t:3 (9 for 11), t:4 (9 for 11) and 3 more"
    )
    assert out_of_range_note(plan(ToOffset(9), {}, bounds)) is None


def test_a_partition_without_a_committed_offset_can_be_set_but_not_shifted() -> None:
    (move,) = plan(ToLatest(), {}, {PLACE: OffsetBounds(0, 4)})
    assert move.current is None
    with pytest.raises(click.ClickException, match="t:0 has no committed offset to shift by 1"):
        plan(ShiftBy(1), {}, {PLACE: OffsetBounds(0, 4)})


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("90m", timedelta(minutes=90)),
        ("PT1H30M", timedelta(minutes=90)),
        ("1d12h", timedelta(days=1.5)),
        ("P7D", timedelta(days=7)),
        ("45s", timedelta(seconds=45)),
    ],
)
def test_durations_are_kafka_s_or_short(text: str, duration: timedelta) -> None:
    assert read_duration(text) == duration


@pytest.mark.parametrize("text", ["", "P", "90", "soon", "1h-2m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration"):
        read_duration(text)


@pytest.mark.parametrize("text", ["9999999d", "99999999999d"])
def test_a_time_before_all_dates_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is too long"):
        _ago(text)


def test_times_are_iso_8601() -> None:
    assert read_moment("1970-01-01T00:00:01+00:00") == 1000
    with pytest.raises(click.BadParameter, match="is not an ISO 8601 time"):
        read_moment("yesterday")


@pytest.mark.parametrize("text", ["", ":0", "t:", "t:x", "t:0,"])
def test_what_is_no_topic_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not TOPIC or TOPIC:PARTITION"):
        read_topic(text)
