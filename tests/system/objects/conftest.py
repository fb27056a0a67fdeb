"""Real S3 servers; where one cannot be installed, its tests fail."""

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from peers.s3_server import S3Server
from peers.versitygw import start_versitygw
from tests.support.servers_installed import install_servers


def pytest_collection_finish(session: pytest.Session) -> None:
    install_servers(session, ["postgres", "toxiproxy", "versitygw"])


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = start_versitygw(tmp_path_factory.mktemp("versitygw") / "data")
    yield server
    server.stop()


@pytest.fixture
def s3_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variables but those of the servers here."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in S3Server.client_environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bucket(tmp_path: Path) -> str:
    """A name that no other test uses."""
    return f"b-{abs(hash(tmp_path)):x}"
