"""Checks of configuration values. Each raises ``ValueError`` with the reason."""

import re
from collections.abc import Callable
from typing import Final

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
NOT_A_NUMBER: Final = "Not a number"
"""The reason for a text that is not a number; Kafka adds the expected type."""

MAX_VALUE_BYTES: Final = 2**15 - 1
"""Maximum length of a string in Kafka's protocol. A longer value could not be described."""

Check = Callable[[str], None]
"""Raises ``ValueError`` with the reason if the text is not a valid value."""

_TRIMMED: Final = "".join(map(chr, range(0x21)))
"""The characters that Java's ``String.trim`` removes: all up to the space."""
_WHOLE: Final = re.compile(r"[+-]?\d{1,1000}")
_FRACTION: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")


def trimmed(text: str) -> str:
    r"""A value trimmed as by Java.

    >>> trimmed(" 5\t"), trimmed("5\u00a0") == "5"
    ('5', False)
    """
    return text.strip(_TRIMMED)


def whole_number(text: str) -> int:
    """Parse an integer as Java's ``Long.parseLong``; raises ``ValueError``.

    Digits of any script are valid, as in Java. Underscores, which ``int`` accepts, are not.

    >>> whole_number(" +5"), whole_number("٣")
    (5, 3)
    >>> whole_number("1_000")
    Traceback (most recent call last):
    ValueError: Not a number
    """
    text = trimmed(text)
    if _WHOLE.fullmatch(text) is None:
        raise ValueError(NOT_A_NUMBER)
    return int(text)


def fraction(text: str) -> float:
    """Parse a decimal number as Java's ``Double.parseDouble``; raises ``ValueError``.

    >>> fraction("5e-1"), fraction(".5f")
    (0.5, 0.5)
    """
    text = trimmed(text)
    if _FRACTION.fullmatch(text) is None:
        raise ValueError(NOT_A_NUMBER)
    return float(text.rstrip("fFdD"))


def list_value(text: str) -> list[str]:
    """The items of a LIST configuration.

    >>> list_value(" compact, delete ")
    ['compact', 'delete']
    """
    return [item.strip() for item in text.split(",") if item.strip()]


def check_length(text: str) -> None:
    """Raises ``ValueError`` for a value that is too long for a response."""
    size = len(text.encode())
    if size > MAX_VALUE_BYTES:
        raise ValueError(f"it has {size} bytes, and at most {MAX_VALUE_BYTES} are allowed")


def check_number(text: str, *, low: int, high: int) -> None:
    """Raises ``ValueError`` unless ``text`` is an integer from ``low`` to ``high``."""
    value = whole_number(text)
    if value < low:
        raise ValueError(f"Value must be at least {low}")
    if value > high:
        raise ValueError(f"Value must be no more than {high}")


def is_fraction(text: str) -> None:
    if not 0 <= fraction(text) <= 1:
        raise ValueError("Value must be between 0 and 1")


def is_double(text: str) -> None:
    fraction(text)


def is_boolean(text: str) -> None:
    is_one_of(trimmed(text).lower(), choices=("true", "false"))


def is_one_of(text: str, *, choices: tuple[str, ...]) -> None:
    if text not in choices:
        raise ValueError(f"String must be one of: {', '.join(choices)}")


def _full_items(text: str) -> list[str]:
    """The items of a list. Raises ``ValueError`` for an empty item, as Kafka does."""
    items = list_value(text)
    if trimmed(text) and len(items) != text.count(",") + 1:
        raise ValueError("it has an empty item")
    return items


def is_list_of(text: str, *, choices: tuple[str, ...]) -> None:
    items = _full_items(text)
    if len(set(items)) != len(items):
        raise ValueError("it has duplicate values")
    for item in items:
        is_one_of(item, choices=choices)


def is_throttled_replicas(text: str) -> None:
    for item in _full_items(text):
        if item == "*":
            continue
        partition, colon, broker = item.partition(":")
        if not (colon and item.isascii() and partition.isdigit() and broker.isdigit()):
            raise ValueError("it must be * or a list of partition:broker")


def is_gzip_level(text: str) -> None:
    if whole_number(text) not in (-1, *range(1, 10)):
        raise ValueError("it must be -1 or between 1 and 9")
