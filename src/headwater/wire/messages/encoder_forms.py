"""Forms: how the encoder's compiler accesses the values of a response."""

from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any, Final, Protocol

from headwater.wire.messages.schema import Field, fields_of
from headwater.wire.messages.source import Source

Layout = Mapping[str, "Layout | None"]
"""The names of a tuple's elements in order; an array of tuples has its own layout as value."""

NO_UUID: Final = bytes(16)
_EMPTY: Final = {"string": "", "bytes": b"", "records": ()}


class Form(Protocol):
    """The access to field values."""

    has_tags: bool
    records_in_parts: bool

    def open(self, source: Source, entity_type: Any, path: tuple[str, ...]) -> str:
        """The target of a loop over entities, as in ``for target in items``."""
        ...

    def value(self, source: Source, variable: str, field: Field, path: tuple[str, ...]) -> str:
        """The expression of a field's value."""
        ...

    def packed(self, kind: str, value: str) -> str:
        """The expression that is packed for a value of fixed width."""
        ...

    def tag_default(self, field: Field) -> Any:
        """The value that means that a tagged field is not sent."""
        ...


class Entities:
    """kio's own dataclasses."""

    has_tags = True
    records_in_parts = False

    def open(self, source: Source, _entity_type: Any, _path: tuple[str, ...]) -> str:
        return source.name("entity")

    def value(self, _source: Source, variable: str, field: Field, _path: tuple[str, ...]) -> str:
        return f"{variable}.{field.name}"

    def packed(self, kind: str, value: str) -> str:
        match kind:
            case "uuid":
                return f"uuid({value})"
            case "timedelta_i32" | "timedelta_i64":
                return f"milliseconds({value})"
            case "datetime_i64":
                return f"timestamp({value})"
            case _:
                return value

    def tag_default(self, field: Field) -> Any:
        return field.default


class Dicts:
    """Nested mappings of field names. Missing fields have the schema's default, or are empty."""

    has_tags = True
    records_in_parts = True

    def open(self, source: Source, _entity_type: Any, _path: tuple[str, ...]) -> str:
        return source.name("entity")

    def value(self, source: Source, variable: str, field: Field, _path: tuple[str, ...]) -> str:
        return f"{variable}.get({field.name!r}, {source.constant('default', absent(field))})"

    def packed(self, kind: str, value: str) -> str:
        return f"{kind}({value})" if kind in ("uuid", "numbers") else value

    def tag_default(self, field: Field) -> Any:
        return absent(field)


class Rows:
    """Tuples with one layout for all versions. Elements that a version lacks are skipped."""

    has_tags = False
    records_in_parts = True

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def open(self, source: Source, entity_type: Any, path: tuple[str, ...]) -> str:
        present = {field.name for field in fields_of(entity_type)}
        names = [self._local(path, name) if name in present else "_" for name in self._at(path)]
        return ", ".join(names) + "," if names else "_"

    def value(self, source: Source, _variable: str, field: Field, path: tuple[str, ...]) -> str:
        if field.name in self._at(path):
            return self._local(path, field.name)
        return source.constant("default", absent(field))

    def packed(self, _kind: str, value: str) -> str:
        return value

    def tag_default(self, field: Field) -> Any:
        raise AssertionError(f"tuples have no tagged fields, and {field.name} is one")

    def _at(self, path: tuple[str, ...]) -> Layout:
        layout: Layout | None = self._layout
        for name in path:
            layout = (layout or {}).get(name)
        return layout or {}

    @staticmethod
    def _local(path: tuple[str, ...], name: str) -> str:
        return "_".join((*path, name))


def absent(field: Field) -> Any:
    """The value of a missing field."""
    value: Any
    match field.type:
        case _ if field.is_array:
            value = None if field.nullable else ()
        case "uuid" | "entity" if field.tag is not None or field.nullable:
            value = None
        case "uuid":
            value = NO_UUID
        case "entity":
            value = {}
        case "timedelta_i32" | "timedelta_i64":
            value = 0
        case "datetime_i64":
            value = -1
        case _ if field.default is not MISSING:
            value = field.default
        case _:
            value = None if field.nullable else _EMPTY.get(field.type, 0)
    return value
