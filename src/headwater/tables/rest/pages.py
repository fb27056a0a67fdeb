"""Lists in pages, ordered by name, so that names may be added and dropped between two pages."""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headwater.tables.rest.errors import BadRequest

_SEPARATOR: Final = "\x1f"
_DEFAULT_SIZE: Final = 1000


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a list that a client asks for; all of it by default."""

    after: tuple[str, ...] | None = None
    size: int | None = None


def wanted_page(token: str | None, size: str | None) -> Page:
    """A page by ``pageToken``, empty for the first, and ``pageSize``. Raises ``BadRequest``."""
    if token is None and size is None:
        return Page()
    if size is not None and not (size.isascii() and size.isdecimal() and int(size) > 0):
        raise BadRequest(f"pageSize is {size!r}; expected a number from 1 up")
    try:
        after = tuple(base64.urlsafe_b64decode(token).decode().split(_SEPARATOR)) if token else None
    except (binascii.Error, ValueError):
        raise BadRequest("pageToken is not one that this catalog gave") from None
    return Page(after, int(size) if size is not None else _DEFAULT_SIZE)


def page_of(
    names: Iterable[tuple[str, ...]], page: Page
) -> tuple[list[tuple[str, ...]], str | None]:
    """The names of a page, and the token of the next one.

    >>> names, token = page_of([("b",), ("a",), ("c",)], wanted_page("", "2"))
    >>> names, page_of([("b",), ("a",), ("c",)], wanted_page(token, "2"))
    ([('a',), ('b',)], ([('c',)], None))
    """
    left = sorted(name for name in names if page.after is None or name > page.after)
    if page.size is None or len(left) <= page.size:
        return left, None
    chosen = left[: page.size]
    return chosen, base64.urlsafe_b64encode(_SEPARATOR.join(chosen[-1]).encode()).decode()
