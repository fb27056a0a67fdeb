"""kcat (librdkafka). It takes text lines, sets headers per invocation and cannot set timestamps."""

import itertools
import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import ClassVar

from peers import kcat
from tests.support.interop.records import Codec, Feature, InteropRecord, Received


class Kcat:
    name = "kcat"
    sends: ClassVar = frozenset(Feature) - {Feature.TIMESTAMPS, Feature.BINARY}
    reads: ClassVar = frozenset(Feature) - {Feature.BINARY}
    chooses_partitions = True

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
        for headers, group in itertools.groupby(records, key=lambda record: record.headers):
            arguments = ["-P", "-p", str(partition), "-K", "\t", "-Z", "-z", codec]
            for name, value in headers:
                arguments += ["-H", name if value is None else f"{name}={value.decode()}"]
            for setting, chosen in (settings or {}).items():
                arguments += ["-X", f"{setting}={str(chosen).lower()}"]
            lines = [(record.key or b"") + b"\t" + (record.value or b"") for record in group]
            run_kcat(bootstrap, topic, *arguments, stdin=b"\n".join(lines))

    def consume(
        self, bootstrap: str, topic: str, *, count: int, partition: int = 0, offset: int = 0
    ) -> list[Received]:
        place = ["-p", str(partition), "-o", str(offset), "-c", str(count)]
        lines = run_kcat(bootstrap, topic, "-C", "-J", "-e", *place).splitlines()
        received = [_parse(json.loads(line)) for line in lines]
        assert len(received) == count, f"{count} records asked for, {len(received)} came"
        return received


def run_kcat(bootstrap: str, topic: str, *arguments: str, stdin: bytes = b"") -> str:
    # A group's topics stand at the end, without an option.
    chosen = [topic] if "-G" in arguments else ["-t", topic]
    command = [str(kcat.install()), "-b", bootstrap, *arguments, *chosen]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)
    said = done.stderr.decode(errors="replace")
    assert done.returncode == 0, f"kcat ended with {done.returncode}: {said}"
    return done.stdout.decode()


def _parse(fields: Mapping[str, object]) -> Received:
    flat = fields.get("headers", [])
    offset, timestamp = fields["offset"], fields["ts"]
    assert isinstance(flat, list)
    assert isinstance(offset, int)
    assert isinstance(timestamp, int)
    headers = tuple(
        (str(name), _bytes(value)) for name, value in zip(flat[::2], flat[1::2], strict=True)
    )
    record = InteropRecord(_bytes(fields["payload"]), _bytes(fields["key"]), headers)
    return Received(offset, timestamp, record)


def _bytes(text: object) -> bytes | None:
    return None if text is None else str(text).encode()
