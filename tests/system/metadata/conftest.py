"""The real servers behind the metadata backends, one of each for the whole run.

A backend is a line in ``BACKENDS``: what opens it is in the module that is named after it.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Protocol

import pytest

from peers.service import Service
from peers.toxiproxy import Proxy, Toxiproxy
from tests.support.meta.conformance import Backend
from tests.support.metadata_servers.etcd import EtcdServers
from tests.support.metadata_servers.oxia import OxiaServers
from tests.support.metadata_servers.postgres import PostgresServers
from tests.support.servers_installed import install_servers


class OpenedData(Backend, Protocol):
    """Data that another process can open too."""

    url: str


class BackendServers(Protocol):
    """A backend's server for one run of the tests."""

    @property
    def server(self) -> Service:
        """A test that stops it has one of its own."""
        ...

    def __init__(self, directory: Path) -> None:
        """Start it, with its data in a directory of its own."""

    def backend(self, name: str) -> OpenedData:
        """Data of its own, empty at first; ``name`` is letters, digits and dashes."""
        ...

    def stop(self) -> None: ...


BACKENDS: dict[str, type[BackendServers]] = {
    "etcd": EtcdServers,
    "oxia": OxiaServers,
    "postgres": PostgresServers,
}


def pytest_collection_finish(session: pytest.Session) -> None:
    install_servers(session, ["toxiproxy"])


@pytest.fixture(scope="session")
def names() -> Iterator[int]:
    return count(1)


@pytest.fixture(scope="session")
def servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, BackendServers]]:
    with ExitStack() as stack:

        class Started(dict[str, BackendServers]):
            def __missing__(self, name: str) -> BackendServers:
                server = BACKENDS[name](tmp_path_factory.mktemp(name))
                stack.callback(server.stop)
                self[name] = server
                return server

        yield Started()


@pytest.fixture(params=sorted(BACKENDS))
def backend(
    request: pytest.FixtureRequest, servers: dict[str, BackendServers], names: Iterator[int]
) -> Backend:
    """Every backend in turn, with nothing in it."""
    return servers[request.param].backend(f"test-{next(names)}")


@pytest.fixture
def proxy(server: Service, toxiproxy: Toxiproxy) -> Iterator[Proxy]:
    """A way to the module's server that can be harmed."""
    proxy = toxiproxy.proxy(server.address)
    yield proxy
    proxy.close()


@pytest.fixture
def postgres(servers: dict[str, BackendServers]) -> PostgresServers:
    found = servers["postgres"]
    assert isinstance(found, PostgresServers)
    return found
