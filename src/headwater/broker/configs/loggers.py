"""The levels of this process's loggers, by Kafka's names for loggers and levels.

A changed level is lost when the process ends, as in Kafka.
"""

import logging
from collections.abc import Collection, Iterator
from typing import Final

from headwater.broker.configs.entries import ConfigEntry, ConfigSource
from headwater.errors import InvalidConfig, InvalidRequest
from headwater.topic_config.topic import ConfigType

ROOT: Final = "root"
_OURS: Final = "headwater"
_TRACE: Final = 5
_LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": _TRACE,
    "WARN": logging.WARNING,
}


def loggers() -> dict[str, logging.Logger]:
    """The root logger and the loggers of Headwater that exist, by name."""
    names = sorted(name for name in logging.root.manager.loggerDict if name.startswith(f"{_OURS}."))
    ours = {name: logging.getLogger(name) for name in names}
    return {ROOT: logging.getLogger(), _OURS: logging.getLogger(_OURS), **ours}


def logger_entries(names: Collection[str] | None) -> Iterator[ConfigEntry]:
    """The loggers with their effective levels: all, or only ``names``."""
    for name, logger in loggers().items():
        if names is None or name in names:
            level = _shown(logger.getEffectiveLevel())
            yield ConfigEntry(
                name, level, ConfigSource.DYNAMIC_BROKER_LOGGER, ConfigType.UNKNOWN,
                read_only=False, synonyms=(), doc="",
            )  # fmt: skip


def _shown(level: int) -> str:
    return max(
        (name for name, value in _LEVELS.items() if value <= level),
        key=lambda name: _LEVELS[name],
        default="TRACE",
    )


def check_level(name: str, level: str | None, operation: str) -> None:
    """Raises ``InvalidConfig`` or ``InvalidRequest`` if ``set_level`` cannot do the change."""
    if operation not in ("SET", "DELETE"):
        raise InvalidRequest(f"{operation} operation is not allowed for the BROKER_LOGGER resource")
    if name not in loggers():
        raise InvalidConfig(f"Logger {name} does not exist!")
    if operation == "DELETE":
        if name == ROOT:
            raise InvalidRequest("Removing the log level of the root logger is not allowed")
    elif level not in _LEVELS:
        raise InvalidConfig(
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(_LEVELS)}"
        )


def set_level(name: str, level: str | None) -> None:
    """Set a logger's level; with None it has its parent's level. Call ``check_level`` first."""
    loggers()[name].setLevel(logging.NOTSET if level is None else _LEVELS[level])
