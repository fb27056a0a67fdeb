"""The compiler behind ``encoder``: from a message's schema to a Python function.

Consecutive fields of fixed width are packed by one call, and nested entities are encoded inline. A
*form* defines how the value of a field is accessed: kio's entities, nested dicts, or tuples with a
fixed layout.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import lru_cache
from struct import Struct, pack
from typing import Any, Final
from uuid import UUID

from headwater.wire.messages.encoder_forms import NO_UUID, Form
from headwater.wire.messages.schema import ENTITY, FIXED, Field, fields_of
from headwater.wire.messages.source import Source
from headwater.wire.varint import SHORT, encode_unsigned

PARTS_PER_SEGMENT: Final = 4096
"""Pieces of a response that are joined together; each piece has the overhead of an object."""
MESSAGE_CHARACTERS: Final = 8_000
"""Maximum length of error messages: with a client's name one could exceed 32,767 bytes."""


class Compiler:
    """Writes the body of one encoder. Values of fixed width are collected and packed together."""

    def __init__(self, form: Form) -> None:
        self.source = Source()
        self.source.constants |= {
            "SHORT": SHORT,
            "varint": encode_unsigned,
            "milliseconds": _milliseconds,
            "timestamp": _timestamp,
            "uuid": _uuid,
            "array": _fixed_array,
            "numbers": _numbers,
        }
        self._form = form
        self._formats: list[str] = []
        self._values: list[str] = []
        self._append = "append"

    def compile(self, entity_type: Any) -> Any:
        """``encode(append, parts, segments, message)``; the last two serve records in parts."""
        target = self._form.open(self.source, entity_type, ())
        self.source.line(f"{target} = message")
        self._entity(entity_type, target, ())
        self._flush()
        return self.source.compile("encode(append, parts, segments, message)")

    def _flush(self) -> None:
        """Pack the collected values; needed before any value of variable width."""
        if self._formats:
            name = self.source.struct(self._formats, "pack")
            self.source.line(f"{self._append}({name}({', '.join(self._values)}))")
            self._formats, self._values = [], []

    def _entity(self, entity_type: Any, variable: str, path: tuple[str, ...]) -> None:
        flexible = entity_type.__flexible__
        tagged = []
        for field in fields_of(entity_type):
            if field.tag is not None:
                tagged.append(field)
            else:
                value = self._form.value(self.source, variable, field, path)
                self._field(field, value, (*path, field.name), flexible=flexible)
        if tagged and self._form.has_tags:
            self._tagged_fields(tagged, variable, path)
        elif flexible:
            self._formats.append("x")

    def _field(self, field: Field, value: str, path: tuple[str, ...], *, flexible: bool) -> None:
        if field.is_array:
            self._array(field, value, path, flexible=flexible)
        elif field.type == ENTITY:
            self._nested(field, value, path)
        else:
            if field.name == "error_message":
                value = self._cut(value)
            self._primitive(field.type, value, nullable=field.nullable, flexible=flexible)

    def _cut(self, value: str) -> str:
        """An error message cut to ``MESSAGE_CHARACTERS``; None stays None."""
        message = self.source.name("message")
        self.source.line(f"{message} = {value}")
        with self.source.block(f"if {message} and len({message}) > {MESSAGE_CHARACTERS}:"):
            self.source.line(f"{message} = {message}[:{MESSAGE_CHARACTERS}]")
        return message

    def _primitive(self, kind: str, value: str, *, nullable: bool, flexible: bool) -> None:
        if kind in FIXED:
            self._formats.append(FIXED[kind])
            self._values.append(self._form.packed(kind, value))
            return
        data = self.source.name("data")
        width = "h" if kind == "string" else "i"
        in_parts = kind == "records" and self._form.records_in_parts
        encode = ".encode()" if kind == "string" else ""
        if nullable:
            self.source.line(f"{data} = {value}")
            with self._null_or(data, width, flexible=flexible):
                if encode:
                    self.source.line(f"{data} = {data}{encode}")
                self._sized(data, width, in_parts=in_parts, flexible=flexible)
        else:
            self.source.line(f"{data} = {value}{encode}")
            self._sized(data, width, in_parts=in_parts, flexible=flexible)

    def _sized(self, data: str, width: str, *, in_parts: bool, flexible: bool) -> None:
        """Write a length and bytes. Parts become segments of the frame without a copy."""
        size = f"sum(map(len, {data}))" if in_parts else f"len({data})"
        self._length(size, width, flexible=flexible)
        self._flush()
        if in_parts:
            self.source.line("segments.append(b''.join(parts))")
            self.source.line(f"segments.extend({data})")
            self.source.line("parts.clear()")
        else:
            self.source.line(f"{self._append}({data})")

    def _length(self, length: str, width: str, *, flexible: bool) -> None:
        if not flexible:
            self._formats.append(width)
            self._values.append(length)
            return
        self._flush()
        count = self.source.name("count")
        self.source.line(f"{count} = {length} + 1")
        self.source.line(f"{self._append}(SHORT[{count}] if {count} < 128 else varint({count}))")

    def _null_or(self, value: str, width: str, *, flexible: bool) -> AbstractContextManager[None]:
        """Write null if ``value`` is None; the caller's block writes the other case."""
        self._flush()
        null = b"\0" if flexible else Struct(">" + width).pack(-1)
        with self.source.block(f"if {value} is None:"):
            self.source.line(f"{self._append}({null!r})")
        return self.source.block("else:")

    def _array(self, field: Field, value: str, path: tuple[str, ...], *, flexible: bool) -> None:
        source = self.source
        items = source.name("items")
        self._flush()
        source.line(f"{items} = {value}")
        if field.type in FIXED and field.type != "uuid":
            numbers = self._form.packed("numbers", items)
            source.line(
                f"{self._append}(array({FIXED[field.type]!r}, {numbers}, flexible={flexible}))"
            )
            return
        with self._null_or(items, "i", flexible=flexible):
            self._length(f"len({items})", "i", flexible=flexible)
            self._flush()
            is_entity = field.type == ENTITY
            item = self._form.open(source, field.entity, path) if is_entity else source.name("item")
            with source.block(f"for {item} in {items}:"):
                if is_entity:
                    self._entity(field.entity, item, path)
                else:
                    self._primitive(field.type, item, nullable=False, flexible=flexible)
                self._flush()
                if is_entity and self._form.records_in_parts and self._append == "append":
                    self._fold()

    def _fold(self) -> None:
        """Join the pieces so far, because many small pieces of a long response take much memory."""
        with self.source.block(f"if len(parts) > {PARTS_PER_SEGMENT}:"):
            self.source.line("segments.append(b''.join(parts))")
            self.source.line("parts.clear()")

    def _nested(self, field: Field, value: str, path: tuple[str, ...]) -> None:
        variable = self.source.name("entity")
        self.source.line(f"{variable} = {value}")
        if not field.nullable:
            self._entity(field.entity, variable, path)
            return
        self._flush()
        with self.source.block(f"if {variable} is None:"):
            self.source.line(f"{self._append}(b'\\xff')")
        with self.source.block("else:"):
            self.source.line(f"{self._append}(b'\\x01')")
            self._entity(field.entity, variable, path)
            self._flush()

    def _tagged_fields(self, tagged: list[Field], variable: str, path: tuple[str, ...]) -> None:
        """Count and write the tagged fields that differ from their defaults, in tag order.

        Most entities hold the default object of their class itself, so ``is`` is compared first.
        """
        self._flush()
        source, outer = self.source, self._append
        sent = source.name("sent")
        source.line(f"{sent} = []")
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            value = source.name("value")
            default = source.constant("default", self._form.tag_default(field))
            source.line(f"{value} = {self._form.value(source, variable, field, path)}")
            with source.block(f"if {value} is not {default} and {value} != {default}:"):
                body = source.name("body")
                source.line(f"{body} = []")
                self._append = f"{body}.append"
                self._field(field, value, (*path, field.name), flexible=True)
                self._flush()
                source.line(f"{body} = b''.join({body})")
                source.line(f"{sent}.append(varint({field.tag}) + varint(len({body})) + {body})")
                self._append = outer
        source.line(f"{outer}(varint(len({sent})) + b''.join({sent}))")


def _milliseconds(value: Any) -> int:
    return round(value.total_seconds() * 1000) if value else 0


def _timestamp(value: Any) -> int:
    return -1 if value is None else round(value.timestamp() * 1000)


def _uuid(value: UUID | bytes | None) -> bytes:
    if value is None:
        return NO_UUID
    return value if isinstance(value, bytes) else value.bytes


def _numbers(items: Iterable[int] | None) -> tuple[int, ...] | None:
    return None if items is None else tuple(items)


@lru_cache(maxsize=1024)
def _fixed_array(code: str, items: tuple[int, ...] | None, *, flexible: bool) -> bytes:
    """Cached, because most arrays of numbers are the same few lists of brokers."""
    if items is None:
        return b"\0" if flexible else b"\xff\xff\xff\xff"
    count = len(items)
    length = encode_unsigned(count + 1) if flexible else count.to_bytes(4, "big")
    return length + pack(f">{count}{code}", *items)
