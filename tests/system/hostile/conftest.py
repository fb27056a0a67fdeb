"""One broker for all attacks; after a test that kills it, the next test gets a new one."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

import pytest

from tests.system.hostile.harness import Target, target


@pytest.fixture(scope="session")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Target]]:
    """The running broker; a new one if it has died."""

    def each() -> Iterator[Target]:
        for _ in count():
            current = stack.enter_context(target(tmp_path_factory.mktemp("target") / "data"))
            while current.alive:
                yield current

    with ExitStack() as stack:
        yield each()


@pytest.fixture
def broker(targets: Iterator[Target]) -> Target:
    return next(targets)
