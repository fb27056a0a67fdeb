"""Responses to bytes, by functions compiled once per message version from kio's schema.

kio's own writer walks the schema for every message; these functions have it unrolled: fields of
fixed width that follow each other are packed by one call, and nested entities are written inline.
What they write is kio's output byte for byte, and the tests hold them to it for every response.

``encode_response`` takes kio's entities. ``compile_rows`` is for the replies of the hot path,
where building entities costs more than encoding them: it takes plain tuples in a fixed layout
and writes those fields that the version has. In a row, errors and times are integers, ids are
16 bytes, an absent time is -1, and tagged fields are never sent.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from functools import cache, lru_cache
from struct import Struct, pack
from typing import Any, Final, Protocol
from uuid import UUID

from headwater.wire.schema import ENTITY, FIXED, Field, fields_of
from headwater.wire.source import Source
from headwater.wire.varint import SHORT, encode_unsigned

Layout = Mapping[str, "Layout | None"]
"""The names of a row's elements in order; an array of rows has its own layout as value."""


class Views(Protocol):
    """Record bytes that are sent as they are: ``size`` is the length of all ``parts``."""

    @property
    def parts(self) -> list[memoryview]: ...

    @property
    def size(self) -> int: ...


_PREFIX: Final = Struct(">ii")
_PREFIX_WITH_TAGS: Final = Struct(">iix")
_NO_UUID: Final = bytes(16)
_EMPTY: Final[Mapping[str, Any]] = {"string": "", "bytes": b""}


def encode_response(correlation_id: int, response: Any) -> bytes:
    """A whole response frame, length prefix and header included, of a kio response entity."""
    parts: list[bytes] = []
    response_type = type(response)
    _entity_encoder(response_type)(parts.append, response)
    body = b"".join(parts)
    return frame_prefix(response_type, correlation_id, len(body)) + body


def frame_prefix(response_type: Any, correlation_id: int, body_size: int) -> bytes:
    """Length and response header; the header's version is the one that kio names."""
    if response_type.__header_schema__.__flexible__:
        return _PREFIX_WITH_TAGS.pack(body_size + 5, correlation_id)
    return _PREFIX.pack(body_size + 4, correlation_id)


def compile_rows(
    response_type: Any, layout: Layout
) -> Callable[[int, tuple[Any, ...]], list[bytes | memoryview]]:
    """A function from (correlation id, row) to the frame's segments, to be sent in order.

    ``records`` in a row are ``Views``, which become segments of their own without a copy.
    """
    compiler = _Compiler(rows=True)
    source = compiler.source
    source.line(f"{_unpack_target(compiler, layout, response_type)} = row")
    compiler.entity(response_type, layout, "")
    compiler.flush()
    encode = source.compile("encode_rows(append, parts, segments, row)")

    def encode_segments(correlation_id: int, row: tuple[Any, ...]) -> list[bytes | memoryview]:
        parts: list[bytes] = []
        segments: list[bytes | memoryview] = []
        encode(parts.append, parts, segments, row)
        if not segments:
            body = b"".join(parts)
            return [frame_prefix(response_type, correlation_id, len(body)) + body]
        segments.append(b"".join(parts))
        prefix = frame_prefix(response_type, correlation_id, sum(map(len, segments)))
        segments[0] = prefix + segments[0]
        return segments

    return encode_segments


@cache
def _entity_encoder(entity_type: Any) -> Callable[[Callable[[bytes], None], Any], None]:
    compiler = _Compiler(rows=False)
    compiler.entity(entity_type, None, "message")
    compiler.flush()
    encode: Callable[[Callable[[bytes], None], Any], None] = compiler.source.compile(
        "encode_entity(append, message)"
    )
    return encode


def _unpack_target(compiler: "_Compiler", layout: Layout, entity_type: Any) -> str:
    """The left side that takes a row apart; elements that the version lacks are not named."""
    present = {field.name for field in fields_of(entity_type)}
    names = []
    for name in layout:
        compiler.locals[entity_type, name] = local = compiler.source.name(name)
        names.append(local if name in present else "_")
    return ", ".join(names) + ","


class _Compiler:
    """Writes the body of one encoder; fixed-width values wait in a group until it is flushed."""

    def __init__(self, *, rows: bool) -> None:
        self.source = Source()
        self.source.constants |= {
            "SHORT": SHORT,
            "varint": encode_unsigned,
            "milliseconds": _milliseconds,
            "timestamp": _timestamp,
            "uuid": _uuid,
            "array": _fixed_array,
        }
        self.locals: dict[tuple[Any, str], str] = {}
        self._rows = rows
        self._formats: list[str] = []
        self._values: list[str] = []
        self._append = "append"

    def flush(self) -> None:
        """Write what waits in the group; needed before anything of variable width."""
        if self._formats:
            pack = self.source.struct(self._formats, "pack")
            self.source.line(f"{self._append}({pack}({', '.join(self._values)}))")
            self._formats, self._values = [], []

    def entity(self, entity_type: Any, layout: Layout | None, variable: str) -> None:
        """Write all fields of the entity in ``variable``, or of the row last taken apart."""
        flexible = entity_type.__flexible__
        tagged = []
        for field in fields_of(entity_type):
            if field.tag is not None:
                tagged.append(field)
                continue
            inner = layout.get(field.name) if layout is not None else None
            value = self._value(entity_type, field, layout, variable)
            self._field(field, value, inner, flexible=flexible)
        if not flexible:
            return
        if tagged and not self._rows:
            self._tagged_fields(sorted(tagged, key=lambda field: field.tag or 0), variable)
        else:
            self._formats.append("x")

    def _value(self, entity_type: Any, field: Field, layout: Layout | None, variable: str) -> str:
        if layout is None:
            return f"{variable}.{field.name}"
        if field.name in layout:
            return self.locals[entity_type, field.name]
        return self.source.constant("default", _row_default(field))

    def _field(self, field: Field, value: str, layout: Layout | None, *, flexible: bool) -> None:
        if field.is_array:
            self._array(field, value, layout, flexible=flexible)
        elif field.type == ENTITY:
            self._nested(field, value, layout)
        else:
            self._primitive(field.type, value, nullable=field.nullable, flexible=flexible)

    def _primitive(self, kind: str, value: str, *, nullable: bool, flexible: bool) -> None:
        if kind in FIXED:
            self._formats.append(FIXED[kind])
            self._values.append(value if self._rows else _plain(kind, value))
        elif kind == "records" and self._rows:
            self._records(value, flexible=flexible)
        else:
            self._text(kind, value, nullable=nullable, flexible=flexible)

    def _text(self, kind: str, value: str, *, nullable: bool, flexible: bool) -> None:
        source = self.source
        data = source.name("data")
        width = "h" if kind == "string" else "i"
        encoded = f"{value}.encode()" if kind == "string" else value
        if nullable:
            source.line(f"{data} = None if {value} is None else {encoded}")
            with self._null_or(data, width, flexible=flexible):
                self._length(f"len({data})", width, flexible=flexible)
                self.flush()
                source.line(f"{self._append}({data})")
        else:
            source.line(f"{data} = {encoded}")
            self._length(f"len({data})", width, flexible=flexible)
            self.flush()
            source.line(f"{self._append}({data})")

    def _records(self, value: str, *, flexible: bool) -> None:
        with self._null_or(value, "i", flexible=flexible):
            self._length(f"{value}.size", "i", flexible=flexible)
            self.flush()
            self.source.line("segments.append(b''.join(parts))")
            self.source.line(f"segments.extend({value}.parts)")
            self.source.line("parts.clear()")

    def _length(self, length: str, width: str, *, flexible: bool) -> None:
        if not flexible:
            self._formats.append(width)
            self._values.append(length)
            return
        self.flush()
        count = self.source.name("count")
        self.source.line(f"{count} = {length} + 1")
        self.source.line(f"{self._append}(SHORT[{count}] if {count} < 128 else varint({count}))")

    def _null_or(self, value: str, width: str, *, flexible: bool) -> Any:
        """Write null where ``value`` is None; the caller's block writes the other case."""
        self.flush()
        null = "b'\\0'" if flexible else repr(Struct(">" + width).pack(-1))
        with self.source.block(f"if {value} is None:"):
            self.source.line(f"{self._append}({null})")
        return self.source.block("else:")

    def _array(self, field: Field, value: str, layout: Layout | None, *, flexible: bool) -> None:
        source = self.source
        items = source.name("items")
        self.flush()
        source.line(f"{items} = {value}")
        if field.type in FIXED and field.type != "uuid":
            source.line(
                f"{self._append}(array({FIXED[field.type]!r}, {items}, flexible={flexible}))"
            )
            return
        with self._null_or(items, "i", flexible=flexible):
            self._length(f"len({items})", "i", flexible=flexible)
            self.flush()
            item = source.name("item")
            if layout is not None:
                item = _unpack_target(self, layout, field.entity)
            with source.block(f"for {item} in {items}:"):
                if field.type == ENTITY:
                    self.entity(field.entity, layout, item)
                else:
                    self._primitive(field.type, item, nullable=False, flexible=flexible)
                self.flush()

    def _nested(self, field: Field, value: str, layout: Layout | None) -> None:
        if not field.nullable:
            variable = self.source.name("entity")
            self.source.line(f"{variable} = {value}")
            self.entity(field.entity, layout, variable)
            return
        self.flush()
        with self.source.block(f"if {value} is None:"):
            self.source.line(f"{self._append}(b'\\xff')")
        with self.source.block("else:"):
            self.source.line(f"{self._append}(b'\\x01')")
            variable = self.source.name("entity")
            self.source.line(f"{variable} = {value}")
            self.entity(field.entity, layout, variable)
            self.flush()

    def _tagged_fields(self, tagged: list[Field], variable: str) -> None:
        """Count and write the tagged fields that differ from their defaults.

        Entities mostly hold the very default object of their class, hence ``is`` before ``==``.
        """
        self.flush()
        source, outer = self.source, self._append
        sent = source.name("sent")
        source.line(f"{sent} = []")
        for field in tagged:
            value, default = source.name("value"), source.constant("default", field.default)
            source.line(f"{value} = {variable}.{field.name}")
            with source.block(f"if {value} is not {default} and {value} != {default}:"):
                body = source.name("body")
                source.line(f"{body} = []")
                self._append = f"{body}.append"
                self._field(field, value, None, flexible=True)
                self.flush()
                source.line(f"{body} = b''.join({body})")
                source.line(f"{sent}.append(varint({field.tag}) + varint(len({body})) + {body})")
                self._append = outer
        source.line(f"{outer}(varint(len({sent})) + b''.join({sent}))")


def _plain(kind: str, value: str) -> str:
    """The expression of what is packed for a kio value of a type."""
    match kind:
        case "uuid":
            return f"uuid({value})"
        case "timedelta_i32" | "timedelta_i64":
            return f"milliseconds({value})"
        case "datetime_i64":
            return f"timestamp({value})"
        case _:
            return value


def _row_default(field: Field) -> Any:
    """What a field has that the layout leaves out: the schema's default, or null or empty."""
    if field.is_array:
        return None if field.nullable else ()
    if field.type == "uuid":
        return _NO_UUID
    if field.type in ("timedelta_i32", "timedelta_i64"):
        return 0
    if field.type == "datetime_i64":
        return -1
    if field.default is not MISSING:
        return field.default
    return None if field.nullable else _EMPTY.get(field.type, 0)


def _milliseconds(value: Any) -> int:
    return round(value.total_seconds() * 1000) if value else 0


def _timestamp(value: Any) -> int:
    return -1 if value is None else round(value.timestamp() * 1000)


def _uuid(value: UUID | None) -> bytes:
    return _NO_UUID if value is None else value.bytes


@lru_cache(maxsize=1024)
def _fixed_array(code: str, items: tuple[int, ...] | None, *, flexible: bool) -> bytes:
    """Remembered, because arrays of numbers are mostly the same few lists of brokers."""
    if items is None:
        return b"\0" if flexible else b"\xff\xff\xff\xff"
    count = len(items)
    length = encode_unsigned(count + 1) if flexible else count.to_bytes(4, "big")
    return length + pack(f">{count}{code}", *items)
