"""Extras of the package: checks for their libraries, and the command that installs them."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headwater.errors import ConfigurationError

_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "table": ("numba", "numpy", "pyarrow", "pyiceberg"),
    "spark": ("pyspark",),
}
_ROOT: Final = Path(__file__).parents[2]
"""The root of the project in a clone."""


def missing_modules(extra: str) -> list[str]:
    """The extra's libraries that are not installed."""
    return [name for name in _MODULES[extra] if importlib.util.find_spec(name) is None]


def require_extra(extra: str, user: str) -> None:
    """Raises ``ConfigurationError`` if the libraries of an extra that ``user`` needs are missing.

    >>> require_extra("table", "this command")
    """
    if missing := missing_modules(extra):
        raise ConfigurationError(
            f"{user} needs the extra `{extra}` ({', '.join(missing)} missing): "
            f"{install_command(extra)} adds it"
        )


def install_command(extra: str, root: Path = _ROOT) -> str:
    """The command that installs an extra: from the package index, or in a clone.

    >>> install_command("table", Path("/usr/lib/python3.11"))
    "pip install 'headwater[table]'"
    """
    if not (root / "Makefile").is_file() or not (root / "requirements").is_dir():
        return f"pip install 'headwater[{extra}]'"
    if extra in _MODULES:
        return "make .venv/.spark"
    return f"uv pip install --python .venv/bin/python -c requirements/test.txt -e '.[{extra}]'"
