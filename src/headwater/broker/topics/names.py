"""Kafka's rules for topic names."""

import re
from collections.abc import Awaitable, Callable, Iterable
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


class Collisions:
    """Finds names that differ from an existing one only in '.' and '_'.

    Kafka refuses them, because its metric names would be the same. The existing names are read at
    most once for each request.
    """

    __slots__ = ("_by_plain", "_stored_names")

    def __init__(self, stored_names: Callable[[], Awaitable[Iterable[str]]]) -> None:
        self._stored_names = stored_names
        self._by_plain: dict[str, str] | None = None

    async def check(self, name: str) -> None:
        """Raises ``InvalidTopic``."""
        if not _may_collide(name):
            return
        if self._by_plain is None:
            found = await self._stored_names()
            self._by_plain = {_plain(other): other for other in found if _may_collide(other)}
        other = self._by_plain.get(_plain(name), name)
        if other != name:
            raise InvalidTopic(f"Topic '{name}' collides with existing topic: {other}")

    def created(self, name: str) -> None:
        """Add a name that was created."""
        if self._by_plain is not None and _may_collide(name):
            self._by_plain[_plain(name)] = name


def _may_collide(name: str) -> bool:
    return "." in name or "_" in name


def _plain(name: str) -> str:
    return name.replace(".", "_")
