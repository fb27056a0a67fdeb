from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tables.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World.under(tmp_path)
    yield made
    made.close()
