"""What the texts of configurations may be: each check raises ``ValueError`` with the reason."""

from collections.abc import Callable
from typing import Final

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

MAX_VALUE_BYTES: Final = 2**15 - 1
"""The longest string of Kafka's protocol; a longer value could not be described to a client."""

Check = Callable[[str], None]
"""Raises ``ValueError`` with the reason where the text is not a legal value."""


def list_value(text: str) -> list[str]:
    """The items of a LIST configuration.

    >>> list_value(" compact, delete ")
    ['compact', 'delete']
    """
    return [item.strip() for item in text.split(",") if item.strip()]


def check_length(text: str) -> None:
    """Raises ``ValueError`` for a value that no reply can carry."""
    size = len(text.encode())
    if size > MAX_VALUE_BYTES:
        raise ValueError(f"it has {size} bytes, and at most {MAX_VALUE_BYTES} are allowed")


def check_number(text: str, *, low: int, high: int) -> None:
    """Raises ``ValueError`` unless ``text`` is a whole number between both ends."""
    value = int(text.strip())
    if value < low:
        raise ValueError(f"Value must be at least {low}")
    if value > high:
        raise ValueError(f"Value must be no more than {high}")


def is_fraction(text: str) -> None:
    if not 0 <= float(text.strip()) <= 1:
        raise ValueError("Value must be between 0 and 1")


def is_boolean(text: str) -> None:
    is_one_of(text.strip().lower(), choices=("true", "false"))


def is_one_of(text: str, *, choices: tuple[str, ...]) -> None:
    if text not in choices:
        raise ValueError(f"String must be one of: {', '.join(choices)}")


def is_list_of(text: str, *, choices: tuple[str, ...]) -> None:
    items = list_value(text)
    if len(set(items)) != len(items):
        raise ValueError("it has duplicate values")
    for item in items:
        is_one_of(item, choices=choices)


def is_throttled_replicas(text: str) -> None:
    for item in list_value(text):
        if item == "*":
            continue
        partition, colon, broker = item.partition(":")
        if not (colon and partition.isdigit() and broker.isdigit()):
            raise ValueError("it must be * or a list of partition:broker")


def is_gzip_level(text: str) -> None:
    if int(text) not in (-1, *range(1, 10)):
        raise ValueError("it must be -1 or between 1 and 9")
