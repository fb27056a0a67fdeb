from pathlib import Path

import pytest

from tests.tables.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.under(tmp_path)
