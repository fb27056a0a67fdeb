"""What the suite tells at its end: operations, faults and seeds of every run."""

from collections.abc import Callable

import pytest

from tests.support.servers_installed import install_servers

TOLD = pytest.StashKey[list[str]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    install_servers(session, ["toxiproxy"])


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Print a line after all tests, whether they pass or fail."""
    return request.config.stash.setdefault(TOLD, []).append


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in config.stash.get(TOLD, []):
        terminalreporter.write_line(line)
