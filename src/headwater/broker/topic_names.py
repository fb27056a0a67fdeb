"""Which topic names are legal: Kafka's rules."""

import re
from collections.abc import Iterable
from typing import Final

from headwater.errors import InvalidTopic

MAX_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raises ``InvalidTopic`` with the reason."""
    if not name:
        raise InvalidTopic("Topic name is invalid: the empty string is not allowed")
    if name in {".", ".."}:
        raise InvalidTopic(f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > MAX_LENGTH:
        raise InvalidTopic(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed "
            f"length {MAX_LENGTH}"
        )
    if not _LEGAL.fullmatch(name):
        raise InvalidTopic(
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )


def check_collision(name: str, existing: Iterable[str]) -> None:
    """Names that differ in '.' and '_' alone collide, because metric names do.

    >>> check_collision("a.b", ["a_c"])
    >>> check_collision("a.b", ["a_b"])
    Traceback (most recent call last):
    headwater.errors.InvalidTopic: Topic 'a.b' collides with existing topic: a_b
    """
    if "." not in name and "_" not in name:
        return
    plain = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == plain:
            raise InvalidTopic(f"Topic '{name}' collides with existing topic: {other}")
