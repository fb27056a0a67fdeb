"""Real Kafka clients behind one small face, each saying what it offers."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tests.support.interop.clients.aiokafka import Aiokafka
from tests.support.interop.clients.confluent import Confluent
from tests.support.interop.clients.driven import FRANZ_GO, JAVA, JAVA_NEWEST, KAFKAJS, SARAMA
from tests.support.interop.clients.java import JavaConsole
from tests.support.interop.clients.kafka_python import KafkaPython
from tests.support.interop.clients.kcat import Kcat
from tests.support.interop.records import Codec, Feature, InteropRecord, Received


class InteropClient(Protocol):
    """A producer and a consumer that reads assigned partitions, without a group."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def sends(self) -> frozenset[Feature]:
        """What its producer can express. Every codec is offered by all of them."""
        ...

    @property
    def reads(self) -> frozenset[Feature]:
        """What its consumer can show."""
        ...

    @property
    def chooses_partitions(self) -> bool: ...

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
        """Send in order and return when all are acknowledged; raises where one was not.

        ``settings`` are Kafka's own names of producer settings (``acks``,
        ``enable.idempotence``), which each client takes in its own spelling.
        """
        ...

    def consume(
        self, bootstrap: str, topic: str, *, count: int, partition: int = 0, offset: int = 0
    ) -> list[Received]:
        """Exactly ``count`` records from ``offset`` on; raises where they do not come."""
        ...


LIBRDKAFKA: InteropClient = Confluent()
"""The one that other tests fill and check topics with."""

JAVA_CONSOLE: InteropClient = JavaConsole()

CLIENTS: tuple[InteropClient, ...] = (
    JAVA,
    JAVA_NEWEST,
    LIBRDKAFKA,
    FRANZ_GO,
    SARAMA,
    KAFKAJS,
    Aiokafka(),
    KafkaPython(),
    Kcat(),
    JAVA_CONSOLE,
)
