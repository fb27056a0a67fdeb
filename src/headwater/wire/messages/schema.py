"""Kafka's message schema as kio's generated dataclasses hold it, in the shape that compilers need.

The rules (what is nullable, what a tag's default is, which width a type has) are kio's own; its
introspection functions are private, which the pin on kio's minor version makes safe.
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
"""Stands as the type of a field that holds another entity."""


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
    """What a tagged field has when it is not sent; dataclasses.MISSING where there is none."""


@cache
def fields_of(entity_type: Any) -> tuple[Field, ...]:
    """The fields of a kio entity in wire order; tagged ones stand among them."""
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
    """Tell ``tuple[X, ...] | None`` from an array whose elements may be None.

    >>> _is_nullable_array(tuple[int | None, ...])
    False
    """
    return get_origin(annotation) in (UnionType, Union) and type(None) in get_args(annotation)
