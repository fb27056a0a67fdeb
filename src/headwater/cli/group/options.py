"""Options of ``headwater group reset``: the rule for new offsets, and the partitions."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any

import click

from headwater.cli.client import ClusterClient, Function
from headwater.cli.group.reset import Rule, ShiftBy, ToEarliest, ToLatest, ToOffset, ToTime

_DURATION = re.compile(
    r"p?(?:(?P<days>\d+)d)?t?(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?(?:(?P<seconds>\d+)s)?",
    re.IGNORECASE,
)


def rule_options(function: Function) -> Function:
    """Add the options for the new offset; exactly one must be given. It is passed as ``rule``."""
    makers: dict[str, Callable[[Any], Rule]] = {
        "to_offset": ToOffset,
        "to_earliest": lambda _: ToEarliest(),
        "to_latest": lambda _: ToLatest(),
        "to_datetime": lambda text: ToTime(read_moment(text)),
        "by_duration": lambda text: ToTime(_ago(text)),
        "shift_by": ShiftBy,
    }

    @click.option("--to-earliest", is_flag=True, default=None, help="The start of each partition.")
    @click.option("--to-latest", is_flag=True, default=None, help="The end of each partition.")
    @click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="This offset.")
    @click.option(
        "--to-datetime",
        metavar="TIME",
        help="First record at or after this ISO 8601 time; local time without a zone.",
    )
    @click.option(
        "--by-duration",
        metavar="TIME",
        help="First record at or after now minus this: 90m, P1DT12H.",
    )
    @click.option(
        "--shift-by", type=int, metavar="N", help="Forward by N offsets; backward if negative."
    )
    @wraps(function)
    def command(**arguments: Any) -> Any:
        given = {
            name: value
            for name in makers
            if (value := arguments.pop(name)) is not None and value is not False
        }
        if len(given) != 1:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in makers)
            raise click.UsageError(f"give exactly one of {options}")
        ((name, value),) = given.items()
        return function(rule=makers[name](value), **arguments)

    return command  # type: ignore[return-value]


def _read_topics(
    _: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> list[tuple[str, frozenset[int]]]:
    return [read_topic(text, parameter) for text in texts]


topic_option = click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    callback=_read_topics,
    help="This topic, or these partitions of it; repeatable.  [all that are committed]",
)


def read_topic(text: str, parameter: click.Parameter | None = None) -> tuple[str, frozenset[int]]:
    """``TOPIC`` or ``TOPIC:0,1``. No partitions means all of them.

    >>> read_topic("orders:0,2") == ("orders", frozenset({0, 2}))
    True
    """
    name, colon, partitions = text.partition(":")
    if not name or (colon and not re.fullmatch(r"\d+(,\d+)*", partitions)):
        raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION,...", param=parameter)
    return name, frozenset(int(each) for each in partitions.split(",") if each)


def read_moment(text: str) -> int:
    """An ISO 8601 time in epoch milliseconds. A time without a zone is local.

    >>> read_moment("2026-01-31T12:00:00Z")
    1769860800000
    """
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is not an ISO 8601 time such as 2026-01-31T12:00:00Z",
            param_hint="--to-datetime",
        ) from error


def read_duration(text: str) -> timedelta:
    """A duration as in Kafka's tools (``P1DT2H30M``), or without the letters P and T.

    >>> read_duration("1d2h") == read_duration("P1DT2H")
    True
    """
    found = _DURATION.fullmatch(text)
    given = found.groupdict().items() if found else ()
    parts = {name: int(value) for name, value in given if value}
    if not parts:
        raise click.BadParameter(
            f"{text!r} is not a duration such as 90m, 1d12h or PT1H30M", param_hint="--by-duration"
        )
    return timedelta(**parts)


def _ago(text: str) -> int:
    try:
        return int((datetime.now(UTC) - read_duration(text)).timestamp() * 1000)
    except OverflowError as error:
        raise click.BadParameter(
            f"{text!r} is too long: the time would be before the year 1", param_hint="--by-duration"
        ) from error


def complete_group(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Group names for shell completion; none if no broker answers within a second."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    bootstrap = ctx.params.get("bootstrap") or "127.0.0.1:9092"
    try:
        admin = AdminClient(ClusterClient(bootstrap, {}).configuration())
        listed = admin.list_consumer_groups(request_timeout=1).result()
    except KafkaException:
        return []
    return sorted(
        each.group_id for each in listed.valid or () if each.group_id.startswith(incomplete)
    )
