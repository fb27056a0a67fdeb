"""One member of a group as a process: librdkafka, with a record of its actions and the replies.

``python -m`` this module with ``BOOTSTRAP GROUP TOPIC KIND NAME INSTANCE FILE``, where KIND is an
assignor of the classic protocol or ``consumer``, and INSTANCE is empty for a member that is not
static. FILE gets lines of JSON, each written with one call before what follows from
it is done, so that a kill loses none that matters. SIGTERM makes it leave its group and end.
"""

import json
import os
import signal
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

SESSION_MS = 6_000
"""The least that Kafka allows a classic member."""
LONG_MS = 30_000
"""Longer than any fault: librdkafka that finds itself too slow, or without an answer for as long as
its session lasts, forgets its id while its commit waits for an answer, and a static member is then
told that it was fenced, as by Kafka itself."""
COORDINATOR_SECONDS = 3.0
COMMIT_SECONDS = 0.2
COMMIT_RECORDS = 200
MARK = b"CGMDv2:"


def configuration(kind: str, instance: str, session_ms: int) -> dict[str, Any]:
    """What differs from librdkafka's defaults, so that faults are noticed within the test."""
    settings: dict[str, Any] = {
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "max.poll.interval.ms": LONG_MS,
        "socket.timeout.ms": 2_000,
        "topic.metadata.refresh.interval.ms": 2_000,
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.max.ms": 200,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 50,
        "coordinator.query.interval.ms": 1_000,
        "log_level": 0,
    }
    if kind == "consumer":
        settings["group.protocol"] = "consumer"
    else:
        settings["partition.assignment.strategy"] = kind
        settings["session.timeout.ms"] = session_ms
        settings["heartbeat.interval.ms"] = 500
    if instance:
        settings["group.instance.id"] = instance
    return settings


class WorkingMember:
    """Owns, processes and commits until it must stop."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, kind: str, name: str, instance: str,
        session_ms: str, file: str,
    ) -> None:  # fmt: skip
        self._topic = topic
        self._eager = kind not in ("consumer", "cooperative-sticky")
        self._instance = instance
        self._out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._owned: set[int] = set()
        self._floors: dict[int, int] = {}
        """Where each partition's work began, by the committed offset that was read then."""
        self._processed: dict[int, int] = {}
        self._stopping = False
        self._join_again = False
        self._consumer: Consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": name,
                **configuration(kind, instance, int(session_ms)),
            }
        )

    def run(self) -> None:
        self._subscribe()
        committed, waiting = time.monotonic(), 0
        parent = os.getppid()
        while not self._stopping and os.getppid() == parent:
            message = self._consumer.poll(0.05)
            if self._join_again:
                self._join_again = False
                self._consumer.unsubscribe()
                self._subscribe()
            elif message is not None and message.error() is None:
                self._process(message)
                waiting += 1
            if waiting >= COMMIT_RECORDS or time.monotonic() > committed + COMMIT_SECONDS:
                self._commit(list(self._processed))
                committed, waiting = time.monotonic(), 0
        self._commit(list(self._processed))
        self._consumer.close()

    def stop(self, *_: object) -> None:
        self._stopping = True

    def _subscribe(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _process(self, message: Message) -> None:
        """Note a record as done.

        A librdkafka that wakes up may hand out what it had fetched before it lost a partition,
        also after it was given that partition again; a commit of that would go back by itself.
        """
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        if offset < self._floors.get(partition, offset + 1):
            return
        self._write("processed", partition=partition, offset=offset)
        self._processed[partition] = offset + 1

    def _assigned(self, consumer: Consumer, given: Sequence[TopicPartition]) -> None:
        partitions = {each.partition for each in given}
        self._owned = partitions if self._eager else self._owned | partitions
        owner, generation = self._identity()
        self._write(
            "claim", owner=owner, generation=generation, partitions=sorted(self._owned),
            at=time.monotonic(),
        )  # fmt: skip
        starts, told = list(given), bool(given)
        if given:
            try:
                starts = consumer.committed(starts, timeout=COORDINATOR_SECONDS)
            except KafkaException:
                self._join_again, told = True, False
        if any(each.error is not None for each in starts):
            self._join_again, told = True, False
        for each in starts:
            self._floors[each.partition] = start = max(0, each.offset)
            self._write("started", partition=each.partition, start=start if told else None)
            if told:
                # Without an offset librdkafka would look it up again. If that failed, it would
                # report an error and never fetch the partition.
                each.offset = start
        if self._eager:
            consumer.assign(starts)
        else:
            consumer.incremental_assign(starts)

    def _revoked(self, _: Consumer, taken: Sequence[TopicPartition]) -> None:
        self._commit([each.partition for each in taken if each.partition in self._processed])
        self._forget(taken)

    def _lost(self, _: Consumer, taken: Sequence[TopicPartition]) -> None:
        self._forget(taken)

    def _forget(self, taken: Sequence[TopicPartition]) -> None:
        for each in taken:
            self._owned.discard(each.partition)
            self._floors.pop(each.partition, None)
            self._processed.pop(each.partition, None)

    def _commit(self, partitions: list[int]) -> None:
        """Commit what was processed and is not committed; what fails is done again next time."""
        if not partitions:
            return
        offsets = [TopicPartition(self._topic, each, self._processed[each]) for each in partitions]
        before, invoked = self._identity(), time.monotonic()
        self._write(
            "tried", owner=before[0], generation=before[1], invoked=invoked,
            offsets=[(each, self._processed[each]) for each in partitions],
        )  # fmt: skip
        try:
            results = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            self._write("refused", error=error.args[0].name())
            return
        completed = time.monotonic()
        generation = before[1] if self._identity() == before else -1
        for each in results:
            if each.error is not None:
                self._write("refused", error=each.error.name())
                continue
            self._write(
                "committed", owner=before[0], generation=generation, partition=each.partition,
                offset=each.offset, invoked=invoked, completed=completed,
            )  # fmt: skip
            if self._processed.get(each.partition) == each.offset:
                del self._processed[each.partition]

    def _identity(self) -> tuple[str, int]:
        """Who the coordinator takes this member for, and in which generation or at which epoch.

        librdkafka tells it in the bytes that a transactional producer hands on.
        """
        data: bytes = self._consumer.consumer_group_metadata()
        assert data.startswith(MARK), data
        (generation,) = struct.unpack_from("=i", data, len(MARK))
        member = data[len(MARK) + 4 :].split(b"\x00")[1].decode()
        return self._instance or member, generation

    def _write(self, event: str, **fields: object) -> None:
        os.write(self._out, json.dumps({"event": event, **fields}).encode() + b"\n")


if __name__ == "__main__":
    member = WorkingMember(*sys.argv[1:])
    signal.signal(signal.SIGTERM, member.stop)
    member.run()
