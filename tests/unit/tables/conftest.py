from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tables.world import TablesWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TablesWorld]:
    made = TablesWorld.under(tmp_path)
    yield made
    made.close()
