"""Version ranges are a live Apache Kafka's own, because clients choose their behaviour by them."""

import socket
import struct
from collections.abc import Iterator

import pytest

from peers.kafka import start_kafka
from peers.process import Server

API_VERSIONS = 18
Range = tuple[int, int]


@pytest.fixture(scope="module")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = start_kafka(tmp_path_factory.mktemp("kafka") / "data")
    yield running
    running.stop()


def exchange(bootstrap: str, version: int) -> bytes:
    """Send ApiVersions with an empty body; the answer without its length."""
    host, port = bootstrap.split(",", maxsplit=1)[0].split(":")
    request = struct.pack(">hhih", API_VERSIONS, version, 7, -1)
    if version >= 3:
        request += b"\0"  # a flexible header ends with its tagged fields
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        stream = connection.makefile("rb")
        (length,) = struct.unpack(">i", stream.read(4))
        return stream.read(length)


def served(bootstrap: str, version: int = 0) -> tuple[int, dict[int, Range]]:
    answer = exchange(bootstrap, version)
    correlation, error, count = struct.unpack_from(">ihi", answer)
    assert correlation == 7
    rows = struct.iter_unpack(">hhh", answer[10 : 10 + 6 * count])
    return error, {key: (low, high) for key, low, high in rows}


def test_every_range_is_apache_kafkas_own(bootstrap: str, apache_kafka: Server) -> None:
    _, theirs = served(apache_kafka.bootstrap)
    _, ours = served(bootstrap)
    assert ours == {key: theirs[key] for key in ours}


RECORDS = {0, 1, 2, 3, 18, 22, 23}
GROUPS = {8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69}
ADMIN = {19, 20, 21, 32, 33, 35, 37, 43, 44, 45, 46, 48, 49, 60, 61, 66, 74, 75}


@pytest.mark.parametrize("wanted", [RECORDS, GROUPS, ADMIN], ids=["records", "groups", "admin"])
def test_the_apis_that_clients_work_with_are_there(bootstrap: str, wanted: set[int]) -> None:
    assert wanted - set(served(bootstrap)[1]) == set()


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(
    bootstrap: str, apache_kafka: Server
) -> None:
    error, ours = served(bootstrap, version=99)
    kafka_error, _ = served(apache_kafka.bootstrap, version=99)
    assert error == kafka_error == 35
    assert API_VERSIONS in ours
