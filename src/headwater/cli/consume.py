"""``headwater consume``: print records, without a consumer group."""

import base64
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from typing import Any

import click

from headwater.cli.client import (
    CONNECT_TIMEOUT,
    REQUEST_TIMEOUT,
    ClusterClient,
    cluster_options,
    complete_topic,
    describe,
)

RETRY_PAUSE = 0.1

_EPILOG = """\b
Examples:
  headwater consume greetings
  headwater consume orders --follow --offset latest --json
  headwater consume orders --partition 0 --offset 2026-01-31T12:00:00Z --count 10
"""


@click.command(epilog=_EPILOG)
@click.argument("topic", shell_complete=complete_topic)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this partition; repeatable.",
)
@click.option(
    "-o",
    "--offset",
    default="earliest",
    show_default=True,
    help="earliest, latest, an offset, -N for the last N of each partition, or a time: "
    "ISO 8601 or @MILLISECONDS.",
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("-f", "--follow", is_flag=True, help="Wait for new records.")
@click.option(
    "-k", "--key-separator", metavar="TEXT", help="Print each key and this text before the value."
)
@click.option(
    "--encoding",
    type=click.Choice(["utf-8", "base64"]),
    default="utf-8",
    show_default=True,
    help='Encoding of bytes with --json. Bytes that are not UTF-8 become {"base64": "..."}.',
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per record.")
@cluster_options
def consume(
    cluster: ClusterClient,
    *,
    topic: str,
    partitions: tuple[int, ...],
    offset: str,
    count: int | None,
    key_separator: str | None,
    encoding: str,
    follow: bool,
    as_json: bool,
) -> None:
    """Print the records of TOPIC.

    Stops at the offset that was the end when the command started, unless --follow is given.
    """
    from confluent_kafka import Consumer

    start = _read_offset(offset)
    consumer = Consumer(
        cluster.configuration(
            group_id="headwater-cli",
            enable_auto_commit=False,
            enable_partition_eof=True,
            auto_offset_reset="error",
        )
    )
    with closing(consumer):
        ends = _assign(consumer, topic, partitions, start)
        separator = None if key_separator is None else key_separator.encode()
        for message in _records(consumer, {} if follow else ends, count, follow=follow):
            if as_json:
                click.echo(json.dumps(as_object(message, encoding), ensure_ascii=False))
            else:
                _write_line(message, separator)


def _records(
    consumer: Any, ends: dict[int, int], count: int | None, *, follow: bool
) -> Iterator[Any]:
    """Records up to ``ends``, up to ``count`` of them, or without end."""
    from confluent_kafka import KafkaError, KafkaException

    seen = 0
    while follow or ends:
        message = consumer.poll(0.25)
        if message is None:
            sys.stdout.flush()
            continue
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            ends.pop(message.partition(), None)
            continue
        if error is not None:
            raise KafkaException(error)
        if follow or message.offset() < ends.get(message.partition(), 0):
            yield message
            seen += 1
            if seen == count:
                return
        if message.offset() + 1 >= ends.get(message.partition(), 0):
            ends.pop(message.partition(), None)


def _assign(
    consumer: Any, topic: str, wanted: Iterable[int], start: int | str | datetime
) -> dict[int, int]:
    """Assign the partitions; returns the end of each one that has records after its start."""
    from confluent_kafka import TopicPartition

    metadata = consumer.list_topics(topic, timeout=CONNECT_TIMEOUT).topics[topic]
    if metadata.error is not None:
        raise click.ClickException(f"{topic}: {describe(metadata.error)}")
    known = sorted(metadata.partitions)
    chosen = sorted(set(wanted)) or known
    if absent := set(chosen) - set(known):
        raise click.ClickException(
            f"topic {topic} has no partition {min(absent)}; it has partitions 0 to {known[-1]}"
        )
    bounds = {partition: _bounds(consumer, topic, partition) for partition in chosen}
    starts = {
        partition: _start(start, partition, *bounds[partition])
        for partition in chosen
        if not isinstance(start, datetime)
    }
    if isinstance(start, datetime):
        moment = int(start.timestamp() * 1000)
        asked = [TopicPartition(topic, partition, moment) for partition in chosen]
        for found in consumer.offsets_for_times(asked, timeout=REQUEST_TIMEOUT):
            end = bounds[found.partition][1]
            starts[found.partition] = found.offset if found.offset >= 0 else end
    consumer.assign([TopicPartition(topic, each, starts[each]) for each in chosen])
    return {each: bounds[each][1] for each in chosen if starts[each] < bounds[each][1]}


def _bounds(consumer: Any, topic: str, partition: int) -> tuple[int, int]:
    """The first offset and the end of a partition. Retries if a broker is gone."""
    from confluent_kafka import KafkaException, TopicPartition

    where = TopicPartition(topic, partition)
    deadline = time.monotonic() + REQUEST_TIMEOUT
    while True:
        try:
            earliest, latest = consumer.get_watermark_offsets(where, timeout=REQUEST_TIMEOUT)
        except KafkaException as failed:
            answered = failed.args[0].code() > 0
            if answered or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_PAUSE)
        else:
            return earliest, latest


def _start(start: int | str, partition: int, earliest: int, latest: int) -> int:
    if start == "earliest":
        return earliest
    if start == "latest":
        return latest
    assert isinstance(start, int)
    if start < 0:
        return max(earliest, latest + start)
    if not earliest <= start <= latest:
        raise click.ClickException(
            f"offset {start} is out of range; partition {partition} has offsets {earliest} to "
            f"{latest}"
        )
    return start


def _read_offset(text: str) -> int | str | datetime:
    if text in ("earliest", "latest"):
        return text
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    try:
        if text.startswith("@"):
            return datetime.fromtimestamp(int(text[1:]) / 1000).astimezone()
        return datetime.fromisoformat(text).astimezone()
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is not earliest, latest, an offset, an ISO 8601 time or @MILLISECONDS",
            param_hint="--offset",
        ) from error


def as_object(message: Any, encoding: str) -> dict[str, object]:
    """A record as ``--json`` prints it."""
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE

    kind, timestamp = message.timestamp()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        "timestamp_type": "LogAppendTime" if kind == TIMESTAMP_LOG_APPEND_TIME else "CreateTime",
        "key": _text(message.key(), encoding),
        "value": _text(message.value(), encoding),
        "headers": [
            {"name": name, "value": _text(value, encoding)}
            for name, value in message.headers() or ()
        ],
    }


def _text(data: bytes | None, encoding: str) -> str | dict[str, str] | None:
    if data is None:
        return None
    if encoding == "base64":
        return base64.b64encode(data).decode()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _write_line(message: Any, separator: bytes | None) -> None:
    out = sys.stdout.buffer
    if separator is not None:
        out.write((message.key() or b"") + separator)
    out.write((message.value() or b"") + b"\n")
