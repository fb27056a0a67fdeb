"""A cluster of processes that brokers join and leave while librdkafka's clients are at work."""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from peers.process import free_port
from tests.system.invariants.brokers import ROOT, ServeProcess, ServeProcesses

FLUSH_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class StoreUrls:
    """The URLs of a cluster's stores, and the variables that lead to them.

    Where a URL is empty, the cluster has SQLite or files in its own directory.
    """

    metadata: str = ""
    objects: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class RunningCluster(ServeProcesses):
    """Where a cluster's data is, its brokers, and what may be asked of it."""

    directory: Path
    metadata: str = ""
    objects: str = ""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    pages: dict[int, str] = field(default_factory=dict)
    """Where each broker serves its metrics."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def add(self, broker_id: int, **broker: Any) -> ServeProcess:
        """A broker that is not started, with settings of its own."""
        self.pages[broker_id] = f"127.0.0.1:{free_port()}"
        tree = {
            **self.settings,
            "broker": {**self.settings.get("broker", {}), **broker},
            "metrics": {"listen": self.pages[broker_id]},
        }
        config = self.directory / f"broker-{broker_id}.json"
        config.write_text(json.dumps(tree))
        self.brokers[broker_id] = ServeProcess(
            broker_id,
            [
                *(sys.executable, "-m", "headwater.cli", "serve", "--config", str(config)),
                *("--metadata", self.metadata, "--objects", self.objects),
                *("--broker-id", str(broker_id)),
            ],
            self.directory / f"broker-{broker_id}.log",
            {**clean_environment(), **self.environment},
        )
        return self.brokers[broker_id]

    def metric(self, broker_id: int, line: str) -> float:
        """One line of a broker's metrics; 0 where it is not there."""
        url = f"http://{self.pages[broker_id]}/metrics"
        with urllib.request.urlopen(url, timeout=20) as page:
            for each in page.read().decode().splitlines():
                if each.startswith(f"{line} "):
                    return float(each.rpartition(" ")[2])
        return 0.0

    def run(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """One ``headwater`` command on this cluster's stores."""
        places = ["--metadata", self.metadata]
        if arguments[0] == "restore":
            places += ["--objects", self.objects]
        done = subprocess.run(
            [sys.executable, "-m", "headwater.cli", *arguments, *places],
            capture_output=True,
            text=True,
            env={**clean_environment(), **self.environment},
            cwd=ROOT,
            check=False,
            timeout=50,
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    async def command(self, *arguments: str) -> Any:
        """What a command answers with ``--json``."""
        done = await asyncio.to_thread(self.run, *arguments, "--json")
        return json.loads(done.stdout)

    async def stop(self, broker_id: int) -> None:
        """SIGTERM, and wait for a clean end."""
        broker = self.brokers[broker_id]
        assert broker.process is not None
        broker.process.send_signal(signal.SIGTERM)
        assert await broker.ended() == 0

    async def create_topic(self, name: str, partitions: int, **configs: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        topic = NewTopic(
            name, partitions, 1, config={key.replace("_", "."): v for key, v in configs.items()}
        )
        await asyncio.to_thread(admin.create_topics([topic])[name].result, 20)


async def refusal(broker: ServeProcess) -> str:
    """What a broker says that does not start."""
    try:
        await broker.start()
    except AssertionError as error:
        return str(error)
    finally:
        await broker.kill()
    raise AssertionError(f"broker {broker.id} started")


def clean_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if "HEADWATER" not in key}


@asynccontextmanager
async def place(
    directory: Path,
    *,
    brokers: Sequence[dict[str, Any]] = ({},),
    stores: StoreUrls = StoreUrls(),  # noqa: B008  it is frozen
    **settings: dict[str, Any],
) -> AsyncIterator[RunningCluster]:
    """A cluster on one host with a broker for each of ``brokers``' settings."""
    await asyncio.to_thread((directory / "metadata").mkdir, parents=True)
    found = RunningCluster(
        directory=directory,
        metadata=stores.metadata or f"sqlite:///{directory}/metadata/metadata.db",
        objects=stores.objects or f"file://{directory}/objects",
        settings=settings,
        environment=stores.environment,
    )
    try:
        for number, own in enumerate(brokers, 1):
            found.add(number, **own)
        await asyncio.gather(*(broker.start() for broker in found.brokers.values()))
        yield found
    except BaseException as error:
        error.add_note(found.logs())
        raise
    finally:
        await found.kill_all()


@dataclass(slots=True)
class ClientLoad:
    """Idempotent producers and the members of one group, in threads, until ``stop``.

    ``errors`` is all that an application would have heard of. That a connection was closed, which
    librdkafka tells of at every restart of any broker and mends by itself, is no error.
    """

    bootstrap: str
    topic: str
    partitions: int
    sent: list[bytes] = field(default_factory=list)
    received: list[tuple[int, int, bytes]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _ending: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self, producers: int = 2, members: int = 3) -> None:
        for number in range(producers):
            self._run(self._produce, f"p{number}")
        for number in range(members):
            self._run(self._consume, f"m{number}")

    def _run(self, work: Any, name: str) -> None:
        thread = threading.Thread(target=work, args=(name,), name=name)
        thread.start()
        self._threads.append(thread)

    def stop(self, drained_seconds: float = 20.0) -> None:
        """End the producers, let the members read to the end, then end them."""
        self._stopping.set()
        for thread in self._threads:
            if thread.name.startswith("p"):
                thread.join(FLUSH_SECONDS + 5)
        until = time.monotonic() + drained_seconds
        while len({value for _, _, value in self.received}) < len(self.sent):
            if time.monotonic() > until:
                break
            time.sleep(0.1)
        self._ending.set()
        for thread in self._threads:
            thread.join(20)

    def _note(self, error: KafkaError) -> None:
        if error.code() != KafkaError._TRANSPORT:
            self._hear(error)

    def _hear(self, error: KafkaError) -> None:
        self.errors.append(f"{threading.current_thread().name}: {error}")

    def _produce(self, name: str) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "error_cb": self._note,
            }
        )

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._hear(error)
            else:
                value = message.value()
                assert isinstance(value, bytes)
                self.sent.append(value)

        for number in itertools.count():
            if self._stopping.is_set():
                break
            for partition in range(self.partitions):
                value = f"{name}:{partition}:{number}".encode()
                producer.produce(self.topic, value, partition=partition, on_delivery=delivered)
            producer.poll(0.02)
        if left := producer.flush(FLUSH_SECONDS):
            self.errors.append(f"{name}: {left} records were not delivered")

    def _consume(self, name: str) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "g",
                "client.id": name,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                "auto.commit.interval.ms": 500,
                "error_cb": self._note,
            }
        )
        consumer.subscribe([self.topic])
        try:
            while not self._ending.is_set():
                message = consumer.poll(0.2)
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    self._hear(error)
                    continue
                value, partition, offset = message.value(), message.partition(), message.offset()
                assert isinstance(value, bytes)
                assert partition is not None
                assert offset is not None
                self.received.append((partition, offset, value))
        finally:
            consumer.close()
