"""Validation of a request's bytes before kio parses them.

kio's native reader allocates memory by the array length that the sender claims, and the process
aborts if the allocation fails. It accepts null for any array. It fails on unknown tagged fields,
which the protocol requires to skip. So a function that is compiled from the schema validates each
request first: lengths fit the bytes, null is allowed, strings have at most ``MAX_STRING_BYTES``,
and the number of array elements and tagged fields is limited.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from headwater.errors import MalformedRequest
from headwater.wire.messages.schema import ENTITY, FIXED, Field, fields_of
from headwater.wire.messages.source import Source
from headwater.wire.varint import SHORT, encode_unsigned

Buffer = bytes | memoryview

MAX_ELEMENTS: Final = 250_000
"""Maximum array elements of a request, more than any real one has."""
MAX_STRING_BYTES: Final = 2**15 - 1
"""Kafka's limit for strings. A compact string could be longer, but old versions of the same API
could not return it in a response."""
MAX_SKIPPED_TAGS: Final = 100
"""Maximum unknown tagged fields in one section; Kafka's schemas have at most four tagged fields."""

Walk = Callable[[Buffer, int], tuple[int, bool]]
"""Returns the end of a payload, and whether it has unknown tagged fields.

Raises ``MalformedRequest``, ``IndexError`` or ``struct.error``. The end may be after the buffer's
end, which the caller checks.
"""


@cache
def compile_walk(entity_type: Any, max_elements: int = MAX_ELEMENTS) -> Walk:
    """The validator of one version of a request."""
    return _Compiler().compile(entity_type, max_elements)


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits, and its end."""
    value = shift = 0
    while shift < 35:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise MalformedRequest("a variable-length integer has more than five bytes")


def skip_tagged_fields(data: Buffer, position: int) -> int:
    """The end of a section of tagged fields. Raises ``MalformedRequest`` if there are too many."""
    count, position = read_varint(data, position)
    if count > MAX_SKIPPED_TAGS:
        raise MalformedRequest(f"{count} tagged fields in one section")
    for _ in range(count):
        _tag, position = read_varint(data, position)
        size, position = read_varint(data, position)
        position += size
    return position


class _Compiler:
    """Writes a validator; ``_ahead`` counts bytes of fixed width, which need no check."""

    def __init__(self) -> None:
        self._source = Source()
        self._source.constants |= {
            "varint": read_varint,
            "fail": _fail,
            "int16": struct.Struct(">h").unpack_from,
            "int32": struct.Struct(">i").unpack_from,
        }
        self._ahead = 0

    def compile(self, entity_type: Any, max_elements: int) -> Walk:
        source = self._source
        source.line("end = len(data)")
        source.line("unknown = False")
        source.line(f"elements = {max_elements}")
        self._entity(entity_type)
        self._advance()
        source.line("return position, unknown")
        walk: Walk = source.compile("walk(data, position)")
        return walk

    def _advance(self) -> None:
        if self._ahead:
            self._source.line(f"position += {self._ahead}")
            self._ahead = 0

    def _entity(self, entity_type: Any) -> None:
        tagged = []
        for field in fields_of(entity_type):
            if field.tag is None:
                self._field(field, flexible=entity_type.__flexible__)
            else:
                tagged.append(field)
        if entity_type.__flexible__:
            self._tagged_fields(tagged)

    def _field(self, field: Field, *, flexible: bool) -> None:
        if field.is_array:
            self._array(field, flexible=flexible)
        elif field.type == ENTITY:
            self._nested(field)
        else:
            self._primitive(field.type, field.name, nullable=field.nullable, flexible=flexible)

    def _primitive(self, kind: str, name: str, *, nullable: bool, flexible: bool) -> None:
        if kind in FIXED:
            self._ahead += struct.calcsize(">" + FIXED[kind])
            return
        length = self._length("int16" if kind == "string" else "int32", flexible=flexible)
        self._check_null(length, name, nullable=nullable)
        if kind == "string" and flexible:
            with self._source.block(f"if {length} > {MAX_STRING_BYTES}:"):
                self._source.line(f"fail({name!r}, {length})")
        with self._source.block(f"if {length} > 0:"):
            self._source.line(f"position += {length}")

    def _length(self, width: str, *, flexible: bool) -> str:
        """Read a length; null is -1."""
        self._advance()
        source = self._source
        length = source.name("length")
        if flexible:
            source.line(f"{length} = data[position] - 1")
            source.line("position += 1")
            with source.block(f"if {length} >= 127:"):
                source.line(f"{length}, position = varint(data, position - 1)")
                source.line(f"{length} -= 1")
        else:
            source.line(f"{length} = {width}(data, position)[0]")
            source.line(f"position += {2 if width == 'int16' else 4}")
        return length

    def _check_null(self, length: str, name: str, *, nullable: bool) -> None:
        lowest = -1 if nullable else 0
        with self._source.block(f"if {length} < {lowest}:"):
            self._source.line(f"fail({name!r}, {length})")

    def _array(self, field: Field, *, flexible: bool) -> None:
        source = self._source
        count = self._length("int32", flexible=flexible)
        self._check_null(count, field.name, nullable=field.nullable)
        with source.block(f"if {count} > 0:"):  # null is -1, and must not raise the limit
            source.line(f"elements -= {count}")
        with source.block(f"if {count} > end - position or elements < 0:"):
            source.line(f"fail({field.name!r}, {count})")
        if field.type in FIXED:
            with source.block(f"if {count} > 0:"):
                size = struct.calcsize(">" + FIXED[field.type])
                source.line(f"position += {count} * {size}")
            return
        with source.block(f"for _ in range({count}):"):
            if field.type == ENTITY:
                self._entity(field.entity)
            else:
                self._primitive(field.type, field.name, nullable=False, flexible=flexible)
            self._advance()

    def _nested(self, field: Field) -> None:
        if not field.nullable:
            self._entity(field.entity)
            return
        self._advance()
        source, marker = self._source, self._source.name("marker")
        source.line(f"{marker} = data[position]")
        source.line("position += 1")
        with source.block(f"if {marker} == 1:"):
            self._entity(field.entity)
            self._advance()
        with source.block(f"elif {marker} != 255:"):
            source.line(f"fail({field.name!r}, {marker})")

    def _tagged_fields(self, tagged: list[Field]) -> None:
        self._advance()
        source = self._source
        count, tag, size = source.name("tags"), source.name("tag"), source.name("size")
        source.line(f"{count} = data[position]")
        source.line("position += 1")
        with source.block(f"if {count}:"):
            source.line(f"{count}, position = varint(data, position - 1)")
            source.line(f"elements -= {count}")
            with source.block("if elements < 0:"):
                source.line(f"fail('tagged fields', {count})")
            with source.block(f"for _ in range({count}):"):
                source.line(f"{tag}, position = varint(data, position)")
                source.line(f"{size}, position = varint(data, position)")
                source.line(f"{size} += position")
                for field in tagged:
                    with source.block(f"if {tag} == {field.tag}:"):
                        self._field(field, flexible=True)
                        self._advance()
                        with source.block(f"if position != {size}:"):
                            source.line(f"fail({field.name!r}, {size})")
                        source.line("continue")
                source.line("unknown = True")
                source.line(f"position = {size}")


def _fail(field: str, length: int) -> None:
    raise MalformedRequest(f"length {length} of {field} does not fit the request")


def without_unknown_tags(entity_type: Any, data: Buffer, position: int) -> bytes:
    """A validated payload without its unknown tagged fields."""
    return _strip_entity(entity_type, data, position)[0]


def _strip_entity(entity_type: Any, data: Buffer, position: int) -> tuple[bytes, int]:
    flexible = entity_type.__flexible__
    parts = []
    tagged = {}
    for field in fields_of(entity_type):
        if field.tag is None:
            part, position = _strip_field(field, data, position, flexible=flexible)
            parts.append(part)
        else:
            tagged[field.tag] = field
    if flexible:
        sent = []
        count, position = read_varint(data, position)
        for _ in range(count):
            tag, position = read_varint(data, position)
            size, position = read_varint(data, position)
            if tag in tagged:
                part, _end = _strip_field(tagged[tag], data, position, flexible=True)
                sent.append(encode_unsigned(tag) + encode_unsigned(len(part)) + part)
            position += size
        parts += [encode_unsigned(len(sent)), *sent]
    return b"".join(parts), position


def _strip_field(field: Field, data: Buffer, position: int, *, flexible: bool) -> tuple[bytes, int]:
    if field.is_array:
        start = position
        count, position = _read_length(data, position, "i", flexible=flexible)
        parts = [bytes(data[start:position])]
        for _ in range(count):
            part, position = _strip_element(field, data, position, flexible=flexible)
            parts.append(part)
        return b"".join(parts), position
    if field.type == ENTITY and field.nullable:
        if data[position] != 1:
            return bytes(data[position : position + 1]), position + 1
        part, position = _strip_entity(field.entity, data, position + 1)
        return SHORT[1] + part, position
    return _strip_element(field, data, position, flexible=flexible)


def _strip_element(
    field: Field, data: Buffer, position: int, *, flexible: bool
) -> tuple[bytes, int]:
    if field.type == ENTITY:
        return _strip_entity(field.entity, data, position)
    start = position
    if field.type in FIXED:
        position += struct.calcsize(">" + FIXED[field.type])
    else:
        width = "h" if field.type == "string" else "i"
        length, position = _read_length(data, position, width, flexible=flexible)
        position += max(length, 0)
    return bytes(data[start:position]), position


def _read_length(data: Buffer, position: int, width: str, *, flexible: bool) -> tuple[int, int]:
    if flexible:
        length, position = read_varint(data, position)
        return length - 1, position
    (length,) = struct.unpack_from(">" + width, data, position)
    return length, position + struct.calcsize(width)
