"""Real stores below a cluster of processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from peers.etcd import start_etcd
from peers.s3_server import S3Server
from peers.versitygw import start_versitygw
from tests.support.servers_installed import install_servers
from tests.system.cluster.running import StoreUrls

BUCKET = "shared"


def pytest_collection_finish(session: pytest.Session) -> None:
    install_servers(session, ["versitygw"])


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    """An S3 server with an empty bucket."""
    server = start_versitygw(tmp_path / "s3")
    try:
        server.create_bucket(BUCKET)
        yield server
    finally:
        server.stop()


@pytest.fixture(params=["sqlite and files", "etcd and s3"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreUrls]:
    """What one host has by itself, and then the servers that many brokers share."""
    if request.param == "sqlite and files":
        yield StoreUrls()
        return
    s3: S3Server = request.getfixturevalue("s3")
    server = start_etcd(tmp_path / "etcd")
    try:
        yield StoreUrls(server.url(), s3.url(BUCKET), s3.client_environment())
    finally:
        server.stop()
