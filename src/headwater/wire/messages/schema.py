"""Kafka's message schema from kio's generated dataclasses, in a form for the compilers.

The rules for nullable fields, defaults of tags and widths of types are kio's. Its introspection
functions are private; the pin of kio's minor version makes their use safe.
"""

from dataclasses import dataclass, fields
from functools import cache
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)

FIXED: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float64": "d",
    "uuid": "16s",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
"""The struct format of each type whose width does not depend on its value."""

ENTITY: Final = "entity"
"""The type of a field that contains another entity."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an entity: ``type`` is Kafka's name for it, of each element in an array."""

    name: str
    type: str
    entity: Any
    is_array: bool
    nullable: bool
    """Whether the field itself, for an array not its elements, may be null on the wire."""
    tag: int | None
    default: Any
    """The default of a tagged field; ``dataclasses.MISSING`` if there is none."""


@cache
def fields_of(entity_type: Any) -> tuple[Field, ...]:
    """The fields of a kio entity in wire order, including tagged ones."""
    return tuple(_describe(field) for field in fields(entity_type))


def _describe(field: Any) -> Field:
    tag = get_field_tag(field)
    kind = classify_field(field)
    holds_entity = isinstance(kind, EntityField | EntityTupleField)
    nullable = is_optional(field) if not kind.is_array else _is_nullable_array(field.type)
    return Field(
        name=field.name,
        type=ENTITY if holds_entity else get_schema_field_type(field),
        entity=kind.type_ if holds_entity else None,
        is_array=kind.is_array,
        nullable=nullable and tag is None,
        tag=tag,
        default=field.default if tag is None else get_tagged_field_default(field),
    )


def _is_nullable_array(annotation: Any) -> bool:
    """Distinguish ``tuple[X, ...] | None`` from an array whose elements may be None.

    >>> _is_nullable_array(tuple[int | None, ...])
    False
    """
    return get_origin(annotation) in (UnionType, Union) and type(None) in get_args(annotation)
