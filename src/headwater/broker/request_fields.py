"""Reads fields that older versions of a request lack.

kio has one class for each version of a request. The class of a version without a field has no
attribute of that name.
"""

from typing import Any, TypeVar

T = TypeVar("T")


def optional_field(entity: Any, name: str, *, default: T) -> T:
    """A field of a request, or ``default`` if its version lacks the field."""
    value: T = getattr(entity, name, default)
    return value
