"""The options of ``spark.read.format("headwater")``, checked and typed."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from headwater.errors import ConfigurationError

EARLIEST: Final = -2
LATEST: Final = -1
"""Kafka's numbers for the two ends, also allowed as offsets in JSON."""

MIB: Final = 2**20

_KNOWN: Final = (
    "metadata",
    "objects",
    "topic",
    "topicPattern",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "maxPartitionBytes",
    "pushFilters",
    "group",
    "bootstrap",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The start or the end of a read in each partition.

    A time means the first record at or after it, or the end if there is none.
    """

    default: int
    """EARLIEST or LATEST, for partitions that are not in ``offsets``."""
    offsets: Mapping[str, Mapping[int, int]]
    time_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a read."""

    metadata_url: str
    objects_url: str
    topics: tuple[str, ...]
    pattern: str
    """A regular expression for complete names; empty if ``topics`` are given."""
    starting: Position
    ending: Position
    fail_on_data_loss: bool
    partition_bytes: int
    push_filters: bool
    """Whether filters may exclude ranges; see ``data_source.FilteringReader``."""
    group: str = ""
    """The consumer group that shows the progress of a stream; empty for none."""
    bootstrap: str = ""
    """Bootstrap brokers for the group."""


def parse_options(given: Mapping[str, str], *, streaming: bool = False) -> SourceOptions:
    """Parse options from Spark. Names are not case-sensitive.

    Raises ``ConfigurationError`` for missing, unknown or invalid options.
    """
    options = {name.lower(): value for name, value in given.items()}
    _check_names(options, streaming=streaming)
    topics = tuple(name.strip() for name in options.get("topic", "").split(",") if name.strip())
    pattern = options.get("topicpattern", "")
    if bool(topics) == bool(pattern):
        raise ConfigurationError("format headwater takes either option topic or topicPattern")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(
            f"topicPattern {pattern!r} is not a regular expression: {error}"
        ) from None
    return SourceOptions(
        metadata_url=_required(options, "metadata"),
        objects_url=_required(options, "objects"),
        topics=topics,
        pattern=pattern,
        # As in Spark's Kafka source, a stream starts at the end, and a query at the beginning.
        starting=_position(options, "starting", LATEST if streaming else EARLIEST),
        ending=_position(options, "ending", LATEST),
        fail_on_data_loss=_truth(options, "failOnDataLoss", default=True),
        partition_bytes=_number(options, "maxPartitionBytes", 64 * MIB),
        push_filters=_truth(options, "pushFilters", default=False),
        group=options.get("group", ""),
        bootstrap=options.get("bootstrap", ""),
    )


def _check_names(options: Mapping[str, str], *, streaming: bool) -> None:
    if "maxoffsetspertrigger" in options:
        raise ConfigurationError(
            "maxOffsetsPerTrigger is not supported: Spark 4.1 has no admission control for Python "
            "sources, so a batch reads all available records"
        )
    if streaming and (used := [name for name in options if name.startswith("ending")]):
        raise ConfigurationError(f"a stream has no end: option {used[0]} is for batch reads")
    if bool(options.get("group")) != bool(options.get("bootstrap")):
        raise ConfigurationError(
            "options group and bootstrap need each other: the stream's progress is committed there"
        )
    if options.get("group") and not streaming:
        raise ConfigurationError("option group is for streams: a batch read has no position")
    known = {name.lower() for name in _KNOWN}
    for name in options:
        if name not in known:
            raise ConfigurationError(
                f"format headwater has no option {name!r}; it has {', '.join(_KNOWN)}"
            )


def _required(options: Mapping[str, str], name: str) -> str:
    if not (value := options.get(name, "")):
        raise ConfigurationError(f"format headwater needs option {name}: the broker's --{name} URL")
    return value


def _position(options: Mapping[str, str], edge: str, default: int) -> Position:
    offsets = options.get(f"{edge}offsets")
    time = options.get(f"{edge}timestamp")
    if offsets is not None and time is not None:
        raise ConfigurationError(f"give {edge}Offsets or {edge}Timestamp, not both")
    if time is not None:
        return Position(default=LATEST, offsets={}, time_ms=_milliseconds(f"{edge}Timestamp", time))
    match (offsets or "").strip().lower():
        case "":
            return Position(default=default, offsets={})
        case "earliest":
            return Position(default=EARLIEST, offsets={})
        case "latest":
            return Position(default=LATEST, offsets={})
    whole = EARLIEST if edge == "starting" else LATEST
    return Position(default=whole, offsets=_offsets(f"{edge}Offsets", offsets or ""))


def _offsets(name: str, text: str) -> dict[str, dict[int, int]]:
    """Such as ``{"orders": {"0": 17, "1": -2}}``."""
    try:
        found = {
            str(topic): {int(partition): int(offset) for partition, offset in by_partition.items()}
            for topic, by_partition in json.loads(text).items()
        }
    except (ValueError, AttributeError, TypeError):
        raise ConfigurationError(
            f"{name} is {text!r}; it takes earliest, latest or JSON like "
            '{"orders": {"0": 17, "1": -2}}'
        ) from None
    if any(offset < EARLIEST for offsets in found.values() for offset in offsets.values()):
        raise ConfigurationError(f"{name} is {text!r}: only -2 (earliest) and -1 are below 0")
    return found


def _milliseconds(name: str, text: str) -> int:
    if re.fullmatch(r"\d+", text.strip()):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{name} is {text!r}; it takes milliseconds, or a time like 2026-01-31T12:00:00+00:00"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    match options.get(name.lower(), str(default)).strip().lower():
        case "true":
            return True
        case "false":
            return False
        case other:
            raise ConfigurationError(f"{name} is {other!r}; it takes true or false")


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name.lower(), str(default)).strip()
    if not re.fullmatch(r"[1-9]\d*", text):
        raise ConfigurationError(f"{name} is {text!r}; it takes a number of bytes")
    return int(text)
