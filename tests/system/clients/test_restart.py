"""What was acknowledged is there after the broker ends and starts again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.interop.clients import CLIENTS, InteropClient
from tests.support.interop.records import numbered
from tests.support.interop.restartable import Restartable
from tests.system.clients.conftest import create_topic


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Restartable]:
    running = Restartable(tmp_path / "data")
    yield running
    running.server.stop()


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_acknowledged_records_survive_a_restart(restartable: Restartable, kill: bool) -> None:
    bootstrap = restartable.server.bootstrap
    topics: dict[InteropClient, str] = {client: create_topic(bootstrap) for client in CLIENTS}
    for client, topic in topics.items():
        client.produce(bootstrap, topic, numbered(100), codec="lz4")
    bootstrap = restartable.restart(kill=kill)
    for client, topic in topics.items():
        client.produce(bootstrap, topic, numbered(50, first=100))
        received = client.consume(bootstrap, topic, count=150)
        assert [came.record for came in received] == numbered(150)
        assert [came.offset for came in received] == list(range(150))
