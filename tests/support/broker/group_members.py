"""Members of a group by real clients behind one small interface."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tests.support.broker.serving import HEARTBEAT_MS

TOPIC = "t"
SESSION_MS = 6000


class ClientMember(Protocol):
    """One consumer that subscribed to ``TOPIC`` and commits only when told."""

    async def poll(self) -> list[bytes]:
        """Records that arrived within a short while."""
        ...

    async def assigned(self) -> set[int]: ...

    async def commit(self) -> None: ...

    async def committed(self, partition: int) -> int | None: ...

    async def close(self) -> None: ...


class _InThread:
    """The blocking clients: one call at a time, off the loop."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    async def close(self) -> None:
        await asyncio.to_thread(self._consumer.close)


class LibrdkafkaMember(_InThread):
    @classmethod
    async def join(cls, address: str, group: str, **options: Any) -> "LibrdkafkaMember":
        from confluent_kafka import Consumer

        consumer = Consumer({
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            **{name.replace("_", "."): value for name, value in options.items()},
        })  # fmt: skip
        consumer.subscribe([TOPIC])
        return cls(consumer)

    async def poll(self) -> list[bytes]:
        found = await asyncio.to_thread(self._consumer.consume, 500, 0.2)
        if any("fetch committed offset" in str(message.error()) for message in found):
            # Its coordinator had stopped. librdkafka does not try again and never fetches these
            # partitions (confluentinc/librdkafka#5586), so that its user has to join again.
            await asyncio.to_thread(self._consumer.unsubscribe)
            await asyncio.to_thread(self._consumer.subscribe, [TOPIC])
        return [message.value() for message in found if not message.error()]

    async def assigned(self) -> set[int]:
        return {one.partition for one in await asyncio.to_thread(self._consumer.assignment)}

    async def commit(self) -> None:
        await asyncio.to_thread(lambda: self._consumer.commit(asynchronous=False))

    async def committed(self, partition: int) -> int | None:
        from confluent_kafka import TopicPartition

        (found,) = await asyncio.to_thread(
            self._consumer.committed, [TopicPartition(TOPIC, partition)], 10
        )
        return int(found.offset)


async def join_classic(address: str, group: str) -> ClientMember:
    return await LibrdkafkaMember.join(
        address, group, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS
    )


async def join_cooperative(address: str, group: str) -> ClientMember:
    return await LibrdkafkaMember.join(
        address,
        group,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        partition_assignment_strategy="cooperative-sticky",
    )


async def join_consumer_protocol(address: str, group: str) -> ClientMember:
    return await LibrdkafkaMember.join(address, group, group_protocol="consumer")


class KafkaPythonMember(_InThread):
    @classmethod
    async def join(cls, address: str, group: str) -> "KafkaPythonMember":
        from kafka import KafkaConsumer

        def make() -> Any:
            return KafkaConsumer(
                TOPIC,
                bootstrap_servers=address,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
            )

        return cls(await asyncio.to_thread(make))

    async def poll(self) -> list[bytes]:
        # A poll that ends between SyncGroup and its answer loses the assignment (3.0.12).
        found: Mapping[Any, list[Any]] = await asyncio.to_thread(self._consumer.poll, 1000)
        return [record.value for records in found.values() for record in records]

    async def assigned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    async def commit(self) -> None:
        await asyncio.to_thread(self._consumer.commit)

    async def committed(self, partition: int) -> int | None:
        from kafka import TopicPartition

        found: int | None = await asyncio.to_thread(
            self._consumer.committed, TopicPartition(TOPIC, partition)
        )
        return found


class AiokafkaMember:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    @classmethod
    async def join(cls, address: str, group: str) -> "AiokafkaMember":
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        await consumer.start()
        return cls(consumer)

    async def poll(self) -> list[bytes]:
        found = await self._consumer.getmany(timeout_ms=200)
        return [record.value for records in found.values() for record in records]

    async def assigned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    async def commit(self) -> None:
        await self._consumer.commit()

    async def committed(self, partition: int) -> int | None:
        from aiokafka import TopicPartition

        found: int | None = await self._consumer.committed(TopicPartition(TOPIC, partition))
        return found

    async def close(self) -> None:
        await self._consumer.stop()


JOINS: dict[str, Callable[[str, str], Any]] = {
    "librdkafka classic": join_classic,
    "librdkafka cooperative": join_cooperative,
    "librdkafka consumer protocol": join_consumer_protocol,
    "aiokafka": AiokafkaMember.join,
    "kafka-python": KafkaPythonMember.join,
}
"""How a member of each kind is made, from the broker's address and the group's name."""
