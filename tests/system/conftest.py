"""What several suites with real servers share."""

from collections.abc import Iterator

import pytest

from peers.toxiproxy import Toxiproxy, start_toxiproxy


@pytest.fixture(scope="session")
def toxiproxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toxiproxy]:
    """Ways to servers that can be slowed down, cut and closed."""
    server = start_toxiproxy(tmp_path_factory.mktemp("toxiproxy") / "log")
    yield server
    server.stop()
