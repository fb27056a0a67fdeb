"""A broker over a real S3 server that fails, comes back, or is not there at the start."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from peers.headwater import COMMAND, start_headwater
from peers.postgres import Postgres, start_postgres
from peers.process import Server, free_port
from peers.s3_server import S3Server
from peers.versitygw import start_versitygw
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)  # servers start, fail and come back

BUCKET = "log"
TOPIC = "events"
until = partial(wait_until, seconds=150)
"""A broker may take long to give a store up, and to find it again."""
LARGE = 200_000
"""Bytes of a record that makes its flush an object, where smaller ones travel with metadata."""
STORAGE_ERROR = KafkaError.KAFKA_STORAGE_ERROR


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    """A server of this test's own, with one bucket."""
    server = start_versitygw(tmp_path / "s3")
    server.create_bucket(BUCKET)
    yield server
    server.stop()


@dataclass(frozen=True, slots=True)
class BrokerOnS3:
    server: Server
    metrics: str

    @property
    def readiness(self) -> str:
        try:
            with urllib.request.urlopen(f"http://{self.metrics}/readyz", timeout=5) as answer:
                return str(answer.read().decode().strip())
        except urllib.error.HTTPError as refused:
            return refused.read().decode().strip()

    def produce(self, value: bytes) -> int:
        """Kafka's code for one record that is sent once; 0 where it was stored."""
        codes: list[int] = []

        def told(error: object, _: Message) -> None:
            codes.append(error.code() if error is not None else 0)  # type: ignore[attr-defined]

        producer = Producer({"bootstrap.servers": self.server.bootstrap, "retries": 0})
        producer.produce(TOPIC, value, on_delivery=told)
        producer.flush(60)
        [code] = codes
        return code

    def consume(self, count: int) -> list[int]:
        """The lengths of the topic's first records."""
        consumer = Consumer({"bootstrap.servers": self.server.bootstrap, "group.id": "reader"})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        try:
            lengths: list[int] = []
            while len(lengths) < count:
                message = consumer.poll(30)
                assert message is not None, f"{len(lengths)} of {count} records came"
                assert message.error() is None, message.error()
                lengths.append(len(message.value() or b""))
            return lengths
        finally:
            consumer.close()


def start(s3: S3Server, data: Path) -> BrokerOnS3:
    metrics = free_port()
    environment = {**s3.client_environment(), "HEADWATER_OBJECTS": s3.url(BUCKET, "cluster")}
    server = start_headwater(data, metrics_port=metrics, environment=environment)
    return BrokerOnS3(server, f"127.0.0.1:{metrics}")


@pytest.fixture
def broker(s3: S3Server, tmp_path: Path) -> Iterator[BrokerOnS3]:
    broker = start(s3, tmp_path / "data")
    yield broker
    broker.server.stop()


def test_records_outlive_a_crash_of_the_store(broker: BrokerOnS3, s3: S3Server) -> None:
    assert broker.produce(b"x" * LARGE) == 0
    s3.restart()
    assert broker.produce(b"y" * LARGE) == 0
    assert broker.consume(2) == [LARGE, LARGE]


def test_an_outage_fails_producers_fast_and_leaves_cached_reads_alone(
    broker: BrokerOnS3, s3: S3Server
) -> None:
    assert broker.produce(b"x" * LARGE) == 0
    assert broker.readiness == "ready"
    s3.kill()
    until(lambda: broker.produce(b"y" * LARGE) == STORAGE_ERROR)
    until(lambda: broker.readiness.startswith("the object store is unavailable: "))
    assert broker.produce(b"y" * LARGE) == STORAGE_ERROR
    assert broker.consume(1) == [LARGE]
    s3.start()
    until(lambda: broker.produce(b"z" * LARGE) == 0)
    until(lambda: broker.readiness == "ready")


def test_an_idle_broker_is_not_ready_while_its_store_is_down(
    broker: BrokerOnS3, s3: S3Server
) -> None:
    assert broker.produce(b"travels with the metadata") == 0
    assert broker.readiness == "ready"
    s3.kill()
    until(lambda: broker.readiness.startswith("the object store "))
    for _ in range(12):  # longer than a broker remembers its requests
        assert broker.readiness.startswith("the object store ")
        time.sleep(1)
    s3.start()
    until(lambda: broker.readiness == "ready")


def test_a_frozen_store_is_an_outage_too(broker: BrokerOnS3, s3: S3Server) -> None:
    assert broker.produce(b"x" * LARGE) == 0
    s3.freeze()
    try:
        first = Producer({"bootstrap.servers": broker.server.bootstrap, "linger.ms": 0})
        first.produce(TOPIC, b"y" * LARGE)
        first.poll(0)
        until(lambda: broker.readiness.startswith("the object store is unavailable: "))
    finally:
        s3.thaw()
    assert first.flush(30) == 0
    until(lambda: broker.readiness == "ready")


def test_a_broker_waits_for_a_store_that_is_down_at_its_start(s3: S3Server, tmp_path: Path) -> None:
    s3.kill()
    broker = start(s3, tmp_path / "data")
    try:
        until(lambda: "Waiting for the object store" in broker.server.log.read_text())
        s3.start()
        assert broker.produce(b"x" * LARGE) == 0
        assert broker.readiness == "ready"
    finally:
        broker.server.stop()


def test_a_broker_that_waits_for_its_store_stops_on_a_signal(s3: S3Server, tmp_path: Path) -> None:
    s3.kill()
    broker = start(s3, tmp_path / "data")
    until(lambda: "Waiting for the object store" in broker.server.log.read_text())
    broker.server.process.terminate()
    assert broker.server.process.wait() == 0


def refusal(environment: Mapping[str, str], *arguments: str | Path) -> str:
    """The one line of a broker that does not start."""
    done = subprocess.run(
        [COMMAND, "serve", "--listen", f"127.0.0.1:{free_port()}", *arguments],
        env={**environment, "PATH": ""},
        capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    [line] = done.stderr.strip().splitlines()
    return line


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    server = start_postgres(tmp_path_factory.mktemp("postgres") / "data")
    yield server
    server.stop()


def test_a_bucket_that_is_not_there_stops_the_broker_with_one_line(
    s3: S3Server, tmp_path: Path
) -> None:
    line = refusal(
        s3.client_environment(), "--data", tmp_path / "data", "--objects", s3.url("absent")
    )
    assert "the bucket does not exist; create it, or correct --objects" in line


@pytest.mark.parametrize(
    ("bucket", "secret", "reason"),
    [
        ("absent", None, "the bucket does not exist; create it, or correct --objects"),
        (BUCKET, "wrong", "access is denied; check AWS_ACCESS_KEY_ID"),
    ],
)
def test_a_refusal_of_the_object_store_is_not_waited_for_as_the_metadata_store(
    s3: S3Server, postgres: Postgres, bucket: str, secret: str | None, reason: str
) -> None:
    environment = s3.client_environment()
    if secret is not None:
        environment["AWS_SECRET_ACCESS_KEY"] = secret
    line = refusal(environment, "--metadata", postgres.url(), "--objects", s3.url(bucket))
    assert line.startswith("Error: writing check/")
    assert reason in line


def test_status_tells_what_the_store_was_asked_and_what_that_costs(
    broker: BrokerOnS3, tmp_path: Path
) -> None:
    for _ in range(3):
        assert broker.produce(b"x" * LARGE) == 0
    answer = json.loads(status(tmp_path, "--cost", "--json", "--price-put", "1000"))
    [only] = answer["brokers"]
    assert only["page"]["object_store"] == "healthy"
    assert only["page"]["objects"]["puts"] >= 3
    cost = answer["cost"]
    assert cost["paid"]
    assert cost["load"]["bytes_written"] > 3 * LARGE
    storage, writes, reads, total = (line["dollars"] for line in cost["own"])
    assert storage > 0
    assert writes == pytest.approx(cost["load"]["writes"] * 30)
    assert total == pytest.approx(storage + writes + reads)
    assert "25,000/day x 30 x $0.005/1000" in status(tmp_path, "--cost")


def status(folder: Path, *arguments: str) -> str:
    command: list[str | Path] = [COMMAND, "status", "--data", folder / "data", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=True).stdout
