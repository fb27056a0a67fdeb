"""``headwater produce``: send lines as records."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

import click

from headwater.cli.client import (
    CONNECT_TIMEOUT,
    ClusterClient,
    cluster_options,
    complete_topic,
    describe,
)
from headwater.cli.terminal.output import as_json, byte_size, counted, print_json

_EPILOG = """\b
Examples:
  echo hello | headwater produce greetings
  headwater produce orders events.txt --key-separator : --codec zstd
"""


@dataclass(slots=True)
class DeliveryCounts:
    """Records that were acknowledged (with acks=0: sent), and the first failure."""

    records: int = 0
    bytes: int = 0
    offsets: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)
    """The first and the last offset by partition; None with acks=0."""
    failure: str | None = None

    def delivered(self, error: Any, message: Any) -> None:
        """Handle one delivery report."""
        if error is not None:
            self.failure = self.failure or describe(error)
            return
        self.records += 1
        self.bytes += len(message.value() or b"") + len(message.key() or b"")
        partition, offset = message.partition(), message.offset()
        first, last = self.offsets.get(partition, (offset, offset))
        if offset is not None and first is not None and last is not None:
            first, last = min(first, offset), max(last, offset)
        self.offsets[partition] = (first, last)


@click.command(epilog=_EPILOG)
@click.argument("topic", shell_complete=complete_topic)
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "-k",
    "--key-separator",
    metavar="TEXT",
    help="Split each line into key and value at this text; a line without it has no key.",
)
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header for every record; repeatable.",
)
@click.option(
    "-p", "--partition", type=click.IntRange(min=0), help="Send all records to this partition."
)
@click.option(
    "-z",
    "--codec",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("--null", "null", metavar="TEXT", help="Send null for a value that equals TEXT.")
@as_json
@cluster_options
def produce(
    cluster: ClusterClient,
    *,
    topic: str,
    file: BinaryIO,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    codec: str,
    acks: str,
    null: str | None,
    as_json: bool,
) -> None:
    """Send each line of FILE as a record to TOPIC.

    Without FILE, or with -, reads standard input.
    """
    from confluent_kafka import Producer

    if key_separator == "":
        raise click.BadParameter("it is empty", param_hint="--key-separator")
    producer = Producer(
        cluster.configuration(
            compression_type=codec,
            acks=acks,
            enable_idempotence=acks == "all",
            linger_ms=5,
            message_timeout_ms=60_000,
            topic_metadata_propagation_max_ms=3_000,
        )
    )
    producer.list_topics(topic, timeout=CONNECT_TIMEOUT)  # fails early if no broker answers
    where = {} if partition is None else {"partition": partition}
    fixed = [_header(text) for text in headers]
    separator = None if key_separator is None else key_separator.encode()
    nothing = None if null is None else null.encode()
    tally = DeliveryCounts()
    with _progress(file) as lines:
        for line in lines:
            key, value = _split(line.removesuffix(b"\n"), separator)
            _send(
                producer,
                topic=topic,
                key=key,
                value=None if value == nothing else value,
                headers=fixed,
                on_delivery=tally.delivered,
                **where,
            )
            if tally.failure is not None:
                break
    producer.flush()
    if tally.failure is not None:
        raise click.ClickException(
            f"{tally.failure}; {counted(tally.records, 'record')} acknowledged before that"
        )
    _report(topic, tally, as_json=as_json)


def _send(producer: Any, **record: Any) -> None:
    while True:
        try:
            producer.produce(**record)
        except BufferError:
            producer.poll(0.5)  # the client's queue is full: let it drain
        else:
            producer.poll(0)
            return


def _split(line: bytes, separator: bytes | None) -> tuple[bytes | None, bytes]:
    if separator is None or separator not in line:
        return None, line
    key, _, value = line.partition(separator)
    return key, value


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    return name, value.encode()


class _Lines(Protocol):
    def __iter__(self) -> Iterator[bytes]: ...


@contextmanager
def _progress(file: BinaryIO) -> Iterator[_Lines]:
    """The lines of a file, with a progress bar on a terminal."""
    if file is sys.stdin.buffer or not file.seekable() or not sys.stderr.isatty():
        yield file
        return
    import os

    from rich.console import Console
    from rich.progress import wrap_file

    size = os.fstat(file.fileno()).st_size
    with wrap_file(
        file, size, description="Producing", console=Console(stderr=True), transient=True
    ) as lines:
        yield lines


def _report(topic: str, tally: DeliveryCounts, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "topic": topic,
                "records": tally.records,
                "bytes": tally.bytes,
                "partitions": [
                    {"partition": partition, "first_offset": first, "last_offset": last}
                    for partition, (first, last) in sorted(tally.offsets.items())
                ],
            }
        )
        return
    spread = ", ".join(
        f"partition {partition}" + ("" if first is None else f" offsets {first}-{last}")
        for partition, (first, last) in sorted(tally.offsets.items())
    )
    amount = f"{counted(tally.records, 'record')}, {byte_size(tally.bytes)}"
    verb = "Sent" if (None, None) in tally.offsets.values() else "Produced"
    click.echo(f"{verb} {amount} to {topic}" + (f" ({spread})" if spread else ""), err=True)
