"""What the texts of configurations may be: each check raises ``ValueError`` with the reason."""

import re
from collections.abc import Callable
from typing import Final

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
NOT_A_NUMBER: Final = "Not a number"
"""The reason of a text that is no number; Kafka adds which type of number it is not."""

MAX_VALUE_BYTES: Final = 2**15 - 1
"""The longest string of Kafka's protocol; a longer value could not be described to a client."""

Check = Callable[[str], None]
"""Raises ``ValueError`` with the reason where the text is not a legal value."""

_TRIMMED: Final = "".join(map(chr, range(0x21)))
"""What Java's ``String.trim`` takes away: everything up to the space, and no other white space."""
_WHOLE: Final = re.compile(r"[+-]?\d{1,1000}")
_FRACTION: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")


def trimmed(text: str) -> str:
    r"""A value as Kafka takes it, with its ends trimmed as Java does.

    >>> trimmed(" 5\t"), trimmed("5\u00a0") == "5"
    ('5', False)
    """
    return text.strip(_TRIMMED)


def whole_number(text: str) -> int:
    """What ``Long.parseLong`` reads; raises ``ValueError`` for everything else.

    Digits of any script count, as in Java; underscores, which Python's ``int`` takes, do not.

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
    """What ``Double.parseDouble`` reads in decimal notation; raises ``ValueError`` else.

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
    """Raises ``ValueError`` for a value that no reply can carry."""
    size = len(text.encode())
    if size > MAX_VALUE_BYTES:
        raise ValueError(f"it has {size} bytes, and at most {MAX_VALUE_BYTES} are allowed")


def check_number(text: str, *, low: int, high: int) -> None:
    """Raises ``ValueError`` unless ``text`` is a whole number between both ends."""
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
    """The items of a list without an empty one. Raises ``ValueError``: Kafka takes none either."""
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
