"""The real servers behind the metadata backends, one of each for the whole run.

A backend is a line in ``BACKENDS``: what opens it is in the module that is named after it.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Protocol

import pytest

from tests.backends.etcd import EtcdServers
from tests.meta.conformance import Backend


class Servers(Protocol):
    """A backend's server for one run of the tests."""

    def backend(self, name: str) -> Backend:
        """Data of its own, empty at first; ``name`` is letters, digits and dashes."""
        ...

    def stop(self) -> None: ...


BACKENDS = {"etcd": EtcdServers}
"""What starts each backend's server; it takes the directory for the server's data."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Servers are built before the first test, whose time is not theirs."""
    for name, servers in BACKENDS.items():
        if any(name in item.nodeid for item in session.items):
            servers.install()


@pytest.fixture(scope="session")
def names() -> Iterator[int]:
    return count(1)


@pytest.fixture(scope="session")
def servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Servers]]:
    with ExitStack() as stack:

        class Started(dict[str, Servers]):
            def __missing__(self, name: str) -> Servers:
                server = BACKENDS[name](tmp_path_factory.mktemp(name))
                stack.callback(server.stop)
                self[name] = server
                return server

        yield Started()


@pytest.fixture(params=sorted(BACKENDS))
def backend(
    request: pytest.FixtureRequest, servers: dict[str, Servers], names: Iterator[int]
) -> Backend:
    """Every backend in turn, with nothing in it."""
    return servers[request.param].backend(f"test-{next(names)}")
