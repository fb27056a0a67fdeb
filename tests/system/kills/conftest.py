"""What `make chaos` runs beyond the suites that it runs in full."""

from tests.system.spark.conftest import (
    cluster,
    pytest_collection_modifyitems,
    pytest_terminal_summary,
)

__all__ = ["cluster", "pytest_collection_modifyitems", "pytest_terminal_summary"]
