"""Instances of every kio entity, made from the schema with a seeded choice of values."""

import random
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import kio.schema.index as schema_index
from kio.schema.errors import ErrorCode

from headwater.wire.messages.schema import ENTITY, fields_of

INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint8": (0, 2**8 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
CODES = list(ErrorCode)


def every_version() -> list[tuple[int, int]]:
    return [
        (key, version)
        for key, name in schema_index.api_key_map.items()
        for version in schema_index.schema_name_map[name]
    ]


def primitive(kind: str, chance: random.Random) -> Any:
    if kind in INTEGERS:
        low, high = INTEGERS[kind]
        return chance.choice([low, high, 0, 1, chance.randint(low, high)])
    match kind:
        case "bool":
            return chance.random() < 0.5
        case "float64":
            return chance.uniform(-1e9, 1e9)
        case "string":
            return "".join(chance.choices("aé水𝄞", k=chance.choice([0, 1, 5, 40, 200])))
        case "bytes" | "records":
            return chance.randbytes(chance.choice([0, 1, 126, 127, 128, 17000]))
        case "uuid":
            return None if chance.random() < 0.3 else UUID(bytes=chance.randbytes(16))
        case "error_code":
            return chance.choice(CODES)
        case "timedelta_i32":
            return timedelta(milliseconds=chance.choice([0, 1, 12345, 2**31 - 1]))
        case "timedelta_i64":
            return timedelta(milliseconds=chance.choice([0, 1, 2**40]))
        case "datetime_i64":
            return datetime.fromtimestamp(chance.randint(0, 4_000_000_000), UTC)
    raise AssertionError(kind)


ValueOf = Callable[[str, str, random.Random], Any]
"""From a field's name and type to a value for it."""


def any_value(_name: str, kind: str, chance: random.Random) -> Any:
    return primitive(kind, chance)


def entity(
    entity_type: Any, chance: random.Random, *, items: int = 3, value_of: ValueOf = any_value
) -> Any:
    """An instance with nulls, empty and filled arrays, and tags set and unset, by chance."""
    values: dict[str, Any] = {}
    defaulted = {f.name for f in fields(entity_type) if f.default is not f.default_factory}
    for field in fields_of(entity_type):
        if field.tag is not None and field.name in defaulted and chance.random() < 0.5:
            continue
        if field.nullable and chance.random() < 0.3:
            values[field.name] = None
        elif field.is_array:
            count = chance.choice([0, 1, items])
            values[field.name] = tuple(single(field, chance, value_of) for _ in range(count))
        else:
            values[field.name] = single(field, chance, value_of)
    return entity_type(**values)


def single(field: Any, chance: random.Random, value_of: ValueOf) -> Any:
    if field.type == ENTITY:
        return entity(field.entity, chance, items=2, value_of=value_of)
    value = value_of(field.name, field.type, chance)
    if value is None and field.tag is not None and not field.is_array:
        return field.default
    return value
