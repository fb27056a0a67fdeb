"""A server that a bench runs against, and what can be seen of it from outside."""

import itertools
import os
import shutil
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from prometheus_client.parser import text_string_to_metric_families

from peers.headwater import start_headwater
from peers.kafka import start_kafka
from peers.process import Server, free_port

HEADWATER, KAFKA, KAFKA_FLUSH = "headwater", "kafka", "kafka-flush"
PEERS = (HEADWATER, KAFKA, KAFKA_FLUSH)
FLUSH_EVERY_MESSAGE = {"log.flush.interval.messages": "1"}
"""Kafka at Headwater's durability: fsync before the acknowledgement."""

LEADERS_WITHIN = 60.0

numbers = itertools.count()


@dataclass(slots=True)
class Peer:
    """One server over one folder. It can be restarted; its topics are new for each turn."""

    name: str
    data: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Settings of Headwater's that a bench changes."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Settings of Kafka's that a bench changes."""
    metrics_port: int = field(default_factory=free_port)
    server: Server = field(init=False)

    def __post_init__(self) -> None:
        self.server = self._start()

    def _start(self) -> Server:
        match self.name:
            case "headwater":
                return start_headwater(
                    self.data, metrics_port=self.metrics_port, environment=self.environment
                )
            case "kafka":
                return start_kafka(self.data, properties=self.properties)
            case "kafka-flush":
                return start_kafka(self.data, properties={**self.properties, **FLUSH_EVERY_MESSAGE})
            case other:
                raise ValueError(f"no peer is called {other}")

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    def restart(self) -> None:
        self.server.stop()
        self.server = self._start()

    def stop(self) -> None:
        self.server.stop()
        shutil.rmtree(self.data, ignore_errors=True)

    def create_topic(self, partitions: int) -> str:
        name = f"bench-{next(numbers)}"
        admin = self._admin()
        admin.create_topics([NewTopic(name, partitions, 1)], request_timeout=120)[name].result(120)
        deadline = time.monotonic() + LEADERS_WITHIN
        while not leads(admin, name, partitions):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} has no leaders after {LEADERS_WITHIN} s")
            time.sleep(0.1)
        return name

    def delete_topic(self, name: str) -> None:
        admin = self._admin()
        admin.delete_topics([name], request_timeout=60)[name].result(60)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a counter's samples that carry ``labels``. Headwater alone has them."""
        address = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            text = answer.read().decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def peak_memory_mib(self) -> float:
        """The most that the process ever had resident, by the kernel's own count."""
        status = Path(f"/proc/{self.server.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.server.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def leads(admin: AdminClient, topic: str, partitions: int) -> bool:
    found = admin.list_topics(topic, timeout=60).topics[topic].partitions.values()
    return len([each for each in found if each.leader >= 0]) == partitions
