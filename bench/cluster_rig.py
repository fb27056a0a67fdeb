"""Brokers on S3 with a metadata server, and a proxy that makes the object store slow."""

import os
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from prometheus_client.parser import text_string_to_metric_families

from bench.peer import LEADERS_WITHIN, leads, numbers
from peers.etcd import start_etcd
from peers.headwater import COMMAND
from peers.oxia import start_oxia
from peers.postgres import start_postgres
from peers.process import Server, free_port, start
from peers.toxiproxy import Proxy, start_toxiproxy
from peers.versitygw import start_versitygw

BUCKET = "bench"
CREATE_SECONDS = 300


@dataclass(frozen=True, slots=True)
class MeasuredBroker:
    """One broker and where it tells of itself."""

    server: Server
    metrics_port: int

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a counter's samples that carry ``labels``."""
        address = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(address, timeout=10) as answer:
            text = answer.read().decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.server.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class MeasuredCluster:
    """A running cluster; ``objects`` is what lies between its brokers and the object store."""

    brokers: tuple[MeasuredBroker, ...]
    objects: Proxy

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.server.bootstrap for broker in self.brokers)

    def slow_down(self, milliseconds: int, jitter: int) -> None:
        """Hold every answer of the object store back by that long, and by nothing else."""
        self.objects.heal()
        if milliseconds:
            self.objects.delay(milliseconds, jitter=jitter)

    def create_topic(self, partitions: int, **configs: str) -> str:
        name = f"bench-{next(numbers)}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        topic = NewTopic(name, partitions, 1, config=configs)
        created = admin.create_topics([topic], request_timeout=CREATE_SECONDS)
        created[name].result(CREATE_SECONDS)
        deadline = time.monotonic() + LEADERS_WITHIN
        while not leads(admin, name, partitions):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} has no leaders after {LEADERS_WITHIN} s")
            time.sleep(0.1)
        return name

    def puts(self) -> float:
        return sum(
            broker.metric("headwater_object_requests_total", kind="put") for broker in self.brokers
        )

    def cpu_seconds(self) -> float:
        return sum(broker.cpu_seconds() for broker in self.brokers)


def _sqlite(directory: Path, _: ExitStack) -> str:
    return f"sqlite:///{directory}/metadata.db"


def _etcd(directory: Path, ending: ExitStack) -> str:
    server = start_etcd(directory / "etcd")
    ending.callback(server.stop)
    return server.url()


def _postgres(directory: Path, ending: ExitStack) -> str:
    server = start_postgres(directory / "postgres")
    ending.callback(server.stop)
    return server.url()


def _oxia(directory: Path, ending: ExitStack) -> str:
    server = start_oxia(directory / "oxia")
    ending.callback(server.stop)
    return server.url()


METADATA: Mapping[str, Callable[[Path, ExitStack], str]] = {
    "sqlite": _sqlite,
    "etcd": _etcd,
    "postgres": _postgres,
    "oxia": _oxia,
}


@contextmanager
def running_rig(directory: Path, *, metadata: str, brokers: int) -> Iterator[MeasuredCluster]:
    """``brokers`` with every setting at its default, over empty stores."""
    directory.mkdir(parents=True)
    with ExitStack() as ending:
        store = start_versitygw(directory / "objects")
        ending.callback(store.stop)
        store.create_bucket(BUCKET)
        toxiproxy = start_toxiproxy(directory / "toxiproxy.log")
        ending.callback(toxiproxy.stop)
        proxy = toxiproxy.proxy(store.address)
        objects_url = store.url(BUCKET).replace(store.address, proxy.address)
        metadata_url = METADATA[metadata](directory, ending)
        running = []
        for number in range(1, brokers + 1):
            port, metrics_port = free_port(), free_port()
            command: list[str | Path] = [
                COMMAND, "serve", "--broker-id", str(number), "--listen", f"127.0.0.1:{port}",
                "--metadata", metadata_url, "--objects", objects_url,
                "--metrics", f"127.0.0.1:{metrics_port}", "--data", directory / f"data-{number}",
            ]  # fmt: skip
            server = start(
                command,
                ports=[port],
                log=directory / f"broker-{number}.log",
                environment=store.client_environment(),
            )
            ending.callback(server.stop)
            running.append(MeasuredBroker(server, metrics_port))
        _wait_until_all_know_all(running)
        yield MeasuredCluster(tuple(running), proxy)


def _wait_until_all_know_all(brokers: list[MeasuredBroker]) -> None:
    """Clients that ask before would send everything to the brokers that they are told of."""
    deadline = time.monotonic() + LEADERS_WITHIN
    for broker in brokers:
        admin = AdminClient({"bootstrap.servers": broker.server.bootstrap, "log_level": 0})
        while len(admin.list_topics(timeout=60).brokers) < len(brokers):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{broker.server.bootstrap} does not know of all brokers")
            time.sleep(0.1)
