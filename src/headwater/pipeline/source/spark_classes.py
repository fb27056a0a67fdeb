"""Base classes of a Spark data source.

Without pyspark they are ``object``, so that the modules that plan and read can be imported.
"""

import importlib.util
from importlib import import_module
from typing import Any, Final

from headwater.errors import ConfigurationError
from headwater.extras import install_command

_NEEDED: Final = ("numba", "numpy", "pyarrow")


def _base(name: str) -> Any:
    if importlib.util.find_spec("pyspark") is None:
        return object
    return getattr(import_module("pyspark.sql.datasource"), name)


DataSource: Final[Any] = _base("DataSource")
DataSourceReader: Final[Any] = _base("DataSourceReader")
DataSourceStreamReader: Final[Any] = _base("DataSourceStreamReader")
InputPartition: Final[Any] = _base("InputPartition")


def check_extras() -> None:
    """Raises ``ConfigurationError`` if a library for decoding records is missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"format headwater needs {', '.join(missing)}, of the extra `spark`: "
            f"{install_command('spark')} adds it"
        )
