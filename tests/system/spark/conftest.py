"""One Spark session and one broker for the whole run."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from headwater.pipeline.spark.runner import Done, run_on
from headwater.pipeline.spark.session import spark_session
from peers.s3_server import S3Server
from tests.support.pipeline import tally
from tests.support.pipeline.cluster import PipelineCluster, start_cluster
from tests.support.pipeline.s3_cluster import started_on_s3
from tests.support.pipeline.sizes import LIMIT_SECONDS
from tests.support.servers_installed import install_servers

# Spark's Python workers have the environment that it was started in.
os.environ.update(S3Server.client_environment())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT_SECONDS))
        # Spark's and Kafka's clients close sockets when they are collected; that is theirs to mend.
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
        item.add_marker(
            pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
        )
        item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))
        item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning"))


def pytest_collection_finish(session: pytest.Session) -> None:
    if any("s3_cluster" in getattr(item, "fixturenames", ()) for item in session.items):
        install_servers(session, ["versitygw", "iceberg-rest"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in tally.report():
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PipelineCluster]:
    running = start_cluster(tmp_path_factory.mktemp("cluster") / "data")
    yield running
    running.server.stop()


@pytest.fixture(scope="session")
def s3_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PipelineCluster]:
    with started_on_s3(tmp_path_factory.mktemp("on-s3")) as running:
        yield running


class SharedSpark:
    """A runner on a session that stays open when a compaction ends."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def run(self, tasks: Sequence[bytes], done: Done) -> list[bytes]:
        return run_on(self.session, tasks, done)

    def close(self) -> None: ...


@pytest.fixture(scope="session")
def spark() -> Iterator[SharedSpark]:
    with spark_session("local[2]", fast=True) as session:
        yield SharedSpark(session)
