"""Kafka's own Java client, through its console tools. They take and print text."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from peers.kafka import run_tool
from tests.support.interop.records import Codec, Feature, InteropRecord, Received

FIELD, HEADER, NULL, LINE = "\x1f", "\x1d", "\x1aNULL", "\x1e"


class JavaConsole:
    name = "Kafka's Java console tools"
    sends: ClassVar = frozenset(Feature) - {Feature.TIMESTAMPS, Feature.BINARY}
    reads: ClassVar = frozenset(Feature) - {Feature.BINARY}
    chooses_partitions = False

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[InteropRecord],
        *,
        codec: Codec = "none",
        partition: int = 0,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        assert partition == 0, "the console producer leaves the partition to its partitioner"
        options = {"max.request.size": 2_000_000, "delivery.timeout.ms": 40_000, **(settings or {})}
        arguments = ["--compression-codec", codec, "--request-timeout-ms", "20000"]
        for name, value in options.items():
            arguments += ["--command-property", f"{name}={str(value).lower()}"]
        reader = {
            "parse.key": "true",
            "parse.headers": "true",
            "key.separator": FIELD,
            "headers.delimiter": FIELD,
            "headers.separator": HEADER,
            "null.marker": NULL,
        }
        for name, value in reader.items():
            arguments += ["--reader-property", f"{name}={value}"]
        text = "".join(f"{_line(record)}\n" for record in records)
        done = run_tool(
            "ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", topic, *arguments,
            stdin=text.encode(),
        )  # fmt: skip
        # The tool logs a failed send and still ends with 0.
        assert b"ERROR" not in done.stderr, done.stderr.decode()

    def consume(
        self, bootstrap: str, topic: str, *, count: int, partition: int = 0, offset: int = 0
    ) -> list[Received]:
        formatter = {
            "print.timestamp": "true",
            "print.offset": "true",
            "print.headers": "true",
            "print.key": "true",
            "key.separator": FIELD,
            "headers.separator": HEADER,
            "line.separator": LINE,
            "null.literal": NULL,
        }
        arguments = ["--max-messages", str(count), "--timeout-ms", "20000"]
        for name, value in formatter.items():
            arguments += ["--formatter-property", f"{name}={value}"]
        done = run_tool(
            "consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, "--topic", topic,
            "--partition", str(partition), "--offset", str(offset), *arguments,
        )  # fmt: skip
        lines = done.stdout.decode().split(LINE)[:-1]
        assert len(lines) == count, f"{count} records asked for, {len(lines)} came: {done.stderr!r}"
        return [_parse(line) for line in lines]


def _line(record: InteropRecord) -> str:
    headers = HEADER.join(f"{name}:{_text(value)}" for name, value in record.headers)
    return FIELD.join((headers or NULL, _text(record.key), _text(record.value)))


def _text(value: bytes | None) -> str:
    return NULL if value is None else value.decode()


def _bytes(text: str) -> bytes | None:
    return None if text == NULL else text.encode()


def _parse(line: str) -> Received:
    time, offset, headers, key, value = line.split(FIELD)
    pairs = [] if headers == "NO_HEADERS" else headers.split(HEADER)
    split = (pair.split(":", 1) for pair in pairs)
    record = InteropRecord(
        _bytes(value), _bytes(key), tuple((name, _bytes(content)) for name, content in split)
    )
    return Received(int(offset.removeprefix("Offset:")), int(time.split(":")[1]), record)
