"""Servers for the whole run, topics for each test, and the record of what passed."""

import gc
import itertools
import warnings
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from peers.process import Server
from tests.support.interop.capabilities import TIMED
from tests.support.interop.clients import CLIENTS, LIBRDKAFKA
from tests.support.interop.clients.driven import DRIVEN
from tests.support.interop.matrix import Cell, Matrix
from tests.support.interop.servers import UNDER_TEST, start_server
from tests.support.servers_installed import CLIENT_PROGRAMS, install_servers

HERE = Path(__file__).parent
TOOLS = "tools"
LIMIT_SECONDS = 180

matrix = pytest.StashKey[Matrix]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cell(client, capability): what a test says in the matrix")
    config.stash[matrix] = Matrix()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.timeout(LIMIT_SECONDS))
        # Clients close sockets when they are collected; that is theirs to mend.
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
        item.add_marker(
            pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
        )
        item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))


def pytest_collection_finish(session: pytest.Session) -> None:
    install_servers(session, CLIENT_PROGRAMS)


def cells_of(item: pytest.Item) -> list[Cell]:
    return [(str(mark.args[0]), str(mark.args[1])) for mark in item.iter_markers("cell")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed or report.when == "call":
        item.config.stash[matrix].add(cells_of(item), passed=report.passed)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Only a run of every test of this folder against Headwater may speak for the matrix."""
    for client in DRIVEN:
        client.stop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # as for the tests themselves
        gc.collect()
    ran = {item.path for item in session.items}
    outcomes = session.config.stash[matrix]
    expected = {cell for item in session.items for cell in cells_of(item)}
    whole = (
        ran == set(HERE.glob("test_*.py"))
        and not session.config.getoption("keyword")
        and not any("::" in word for word in session.config.args)
        and expected == set(outcomes.outcomes)
    )
    if whole and UNDER_TEST == "headwater":
        names = [client.name for client in CLIENTS]
        outcomes.write(session.config.rootpath / "docs", names, TOOLS)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = start_server(tmp_path_factory.mktemp("server") / "data")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def bootstrap(server: Server) -> str:
    return server.bootstrap


@pytest.fixture(scope="session")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = start_server(tmp_path_factory.mktemp("workers") / "data", workers=2)
    yield running
    running.stop()


numbers = itertools.count()


def fresh_name(kind: str) -> str:
    """One that no other test of the run uses."""
    return f"{kind}-{next(numbers)}"


def create_topic(
    bootstrap: str, *, partitions: int = 1, name: str | None = None, **configs: str
) -> str:
    """A new topic. It keeps its records for ever, because some tests send old ones."""
    name = name or fresh_name("topic")
    given = {key.replace("_", "."): value for key, value in configs.items()}
    settings = {"retention.ms": "-1", **given}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
    admin.create_topics([new], operation_timeout=20)[name].result(30)
    return name


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A new topic with one partition."""
    return create_topic(bootstrap)


@pytest.fixture
def timed_topic(bootstrap: str, topic: str) -> str:
    """``capabilities.TIMED`` in one partition."""
    LIBRDKAFKA.produce(bootstrap, topic, TIMED)
    return topic


@pytest.fixture
def leaving() -> Iterator[ExitStack]:
    """What is called when the test ends."""
    with ExitStack() as stack:
        yield stack
