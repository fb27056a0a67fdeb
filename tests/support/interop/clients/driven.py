"""Clients in other languages, each one running program for the whole run."""

import base64
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from peers import go, java, node
from peers.driver import Driver
from tests.support.interop.records import Codec, Feature, InteropRecord, Received

ALL_FEATURES = frozenset(Feature)


class Driven:
    """A client behind ``peers.driver``'s operations; its program starts when it is first used."""

    chooses_partitions = True

    def __init__(
        self,
        name: str,
        command: Callable[[], Sequence[str | Path]],
        *,
        sends: frozenset[Feature] = ALL_FEATURES,
        reads: frozenset[Feature] = ALL_FEATURES,
    ) -> None:
        self.name, self.sends, self.reads = name, sends, reads
        self._command = command

    @cached_property
    def driver(self) -> Driver:
        log = Path(tempfile.mkdtemp(prefix="headwater-interop-")) / f"{self.name}.log"
        return Driver(self._command(), log=log)

    def stop(self) -> None:
        if "driver" in self.__dict__:
            self.driver.stop()

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
        self.driver.call(
            "produce",
            bootstrap=bootstrap,
            topic=topic,
            partition=partition,
            codec=codec,
            settings=dict(settings or {}),
            records=[_show(record) for record in records],
        )

    def consume(
        self, bootstrap: str, topic: str, *, count: int, partition: int = 0, offset: int = 0
    ) -> list[Received]:
        came = self.driver.call(
            "consume",
            bootstrap=bootstrap,
            topic=topic,
            partition=partition,
            offset=offset,
            count=count,
        )
        return [_parse(fields) for fields in came]


def _show(record: InteropRecord) -> dict[str, object]:
    return {
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [{"name": name, "value": _text(value)} for name, value in record.headers],
        "timestamp": record.timestamp_ms,
    }


def _parse(fields: Mapping[str, Any]) -> Received:
    headers = tuple((each["name"], _bytes(each["value"])) for each in fields["headers"])
    record = InteropRecord(_bytes(fields["value"]), _bytes(fields["key"]), headers)
    return Received(fields["offset"], fields["timestamp"], record)


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


JAVA = Driven("Java client", java.install)
JAVA_NEWEST = Driven("Java client 4.4", java.install_newest)
FRANZ_GO = Driven("franz-go", lambda: [go.install("franz")])
SARAMA = Driven("Sarama", lambda: [go.install("sarama")])
KAFKAJS = Driven(
    "KafkaJS",
    node.install,
    # Its headers are an object of names: their order is not kept, and null is not a value.
    sends=ALL_FEATURES - {Feature.DUPLICATE_HEADERS, Feature.NULL_HEADERS},
    reads=ALL_FEATURES - {Feature.DUPLICATE_HEADERS, Feature.NULL_HEADERS},
)
DRIVEN = (JAVA, JAVA_NEWEST, FRANZ_GO, SARAMA, KAFKAJS)
