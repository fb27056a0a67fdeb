"""Parses the row groups and columns of a Parquet footer without Arrow.

Arrow reads the statistics of a column in code that may throw an uncaught C++ exception, which ends
the process. So this module reads statistics, positions and types from the footer's bytes, in
Thrift's compact protocol. Every step is bounded by the number of bytes.

Invariant: any bytes either give a description or raise ``FooterDamage``.
"""

from dataclasses import dataclass, field
from typing import Any, Final


class FooterDamage(ValueError):
    """Raised when a footer's bytes are invalid."""


_STOP, _TRUE, _FALSE, _BYTE = 0, 1, 2, 3
_VARINTS: Final = (4, 5, 6)
_DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 7, 8, 9, 10, 11, 12, 13
_FIXED: Final = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8, _UUID: 16}
_MAX_DEPTH: Final = 12
_MAX_VARINT: Final = 10
_INT32: Final = 1
_INT64: Final = 2
_BYTE_ARRAY: Final = 6
_WIDTHS: Final = {0: 1, _INT32: 4, _INT64: 8, 4: 4, 5: 8}
"""Bytes of a minimum or maximum, by physical type of fixed width."""
_LEAST: Final = (2, 6)
_GREATEST: Final = (1, 5)
"""The fields of statistics, current and deprecated: Arrow reads both."""


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """One column of a row group."""

    type: int
    """Parquet's number for its physical type."""
    path: tuple[str, ...]
    first_byte: int
    length: int
    values: int
    nulls: int | None
    bounds: tuple[int, int] | None
    """Minimum and maximum of an integer column; None if it has none."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group's columns, in the order of the schema."""

    rows: int
    columns: list[ColumnChunk]


@dataclass(frozen=True, slots=True)
class FooterDescription:
    """A footer: the physical types of the schema's leaves, and the row groups."""

    types: list[int]
    groups: list[RowGroup]


def describe(data: bytes | bytearray | memoryview) -> FooterDescription:
    """The footer in ``data``, without its length and magic. Raises ``FooterDamage``."""
    try:
        found = _ThriftReader(bytes(data)).struct(_FILE)
        types = [_number(leaf, 1) for leaf in found.get(2, ()) if 1 in leaf]
        return FooterDescription(types, [_group(group, types) for group in found.get(4, ())])
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise FooterDamage(f"the footer is damaged: {type(error).__name__}") from error


def width_of(column: ColumnChunk) -> int:
    """Bytes of a value of a column that has bounds."""
    return _WIDTHS[column.type]


def _group(group: dict[int, Any], types: list[int]) -> RowGroup:
    columns = [_column(chunk[3]) for chunk in group[1]]
    if [column.type for column in columns] != types:
        raise FooterDamage("the columns of a row group have other types than the schema")
    return RowGroup(_number(group, 3), columns)


def _column(column: dict[int, Any]) -> ColumnChunk:
    first = _number(column, 9)
    if dictionary := column.get(11):
        first = min(first, dictionary)
    return ColumnChunk(
        type=_number(column, 1),
        path=tuple(name.decode() for name in column[3]),
        first_byte=first,
        length=_number(column, 7),
        values=_number(column, 5),
        nulls=column.get(12, {}).get(3),
        bounds=_bounds(column),
    )


def _bounds(column: dict[int, Any]) -> tuple[int, int] | None:
    statistics = column.get(12, {})
    values = [statistics[name] for name in (*_LEAST, *_GREATEST) if name in statistics]
    width = _WIDTHS.get(column[1])
    if column[1] != _BYTE_ARRAY and any(len(value) != width for value in values):
        raise FooterDamage("a minimum or maximum of a column has a wrong length")
    if column[1] not in (_INT32, _INT64) or 5 not in statistics or 6 not in statistics:
        return None
    return (
        int.from_bytes(statistics[6], "little", signed=True),
        int.from_bytes(statistics[5], "little", signed=True),
    )


def _number(values: dict[int, Any], name: int) -> int:
    number: int = values[name]
    return number


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a struct that are read: by number, the kind of value."""

    numbers: frozenset[int] = frozenset()
    binaries: frozenset[int] = frozenset()
    structs: "dict[int, _Fields]" = field(default_factory=dict)
    lists: "dict[int, _Fields | None]" = field(default_factory=dict)
    """By number, the lists: the fields of their structs; None for a list of binaries."""


_STATISTICS: Final = _Fields(numbers=frozenset({3}), binaries=frozenset({*_LEAST, *_GREATEST}))
_COLUMN: Final = _Fields(
    numbers=frozenset({1, 5, 7, 9, 11}), lists={3: None}, structs={12: _STATISTICS}
)
_FILE: Final = _Fields(
    lists={
        2: _Fields(numbers=frozenset({1})),
        4: _Fields(numbers=frozenset({3}), lists={1: _Fields(structs={3: _COLUMN})}),
    }
)


class _ThriftReader:
    """Thrift's compact protocol; raises ``IndexError`` or ``FooterDamage``."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, wanted: _Fields) -> dict[int, Any]:
        found: dict[int, Any] = {}
        name = 0
        while (header := self._byte()) & 15:
            kind, step = header & 15, header >> 4
            name = name + step if step else self._zigzag()
            if name in found:
                # Arrow merges the two, so its result could differ from both.
                raise FooterDamage("a field is there twice")
            if name in wanted.numbers and kind in _VARINTS:
                found[name] = self._zigzag()
            elif name in wanted.binaries and kind == _BINARY:
                found[name] = self._binary()
            elif name in wanted.structs and kind == _STRUCT:
                found[name] = self.struct(wanted.structs[name])
            elif name in wanted.lists and kind == _LIST:
                found[name] = self._list(wanted.lists[name])
            else:
                self._skip(kind, 0)
        return found

    def _list(self, wanted: _Fields | None) -> list[Any]:
        size, kind = self._list_header()
        if kind != (_BINARY if wanted is None else _STRUCT):
            raise FooterDamage("a list has elements of another type")
        if wanted is None:
            return [self._binary() for _ in range(size)]
        return [self.struct(wanted) for _ in range(size)]

    def _list_header(self) -> tuple[int, int]:
        header = self._byte()
        size = header >> 4 if header >> 4 < 15 else self._varint()
        return self._bounded(size), header & 15

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise FooterDamage("values are nested too deep")
        if kind in _VARINTS:
            self._varint()
        elif kind in _FIXED:
            self._at += _FIXED[kind]
        elif kind == _BINARY:
            self._binary()
        elif kind == _STRUCT:
            while (header := self._byte()) & 15:
                if not header >> 4:
                    self._varint()
                self._skip(header & 15, depth + 1)
        elif kind in (_LIST, _SET):
            size, element = self._list_header()
            for _ in range(size):
                self._skip_element(element, depth)
        elif kind == _MAP:
            size = self._bounded(self._varint())
            kinds = self._byte() if size else 0
            for _ in range(size):
                self._skip_element(kinds >> 4, depth)
                self._skip_element(kinds & 15, depth)
        else:
            raise FooterDamage(f"no value has type {kind}")

    def _skip_element(self, kind: int, depth: int) -> None:
        """As ``_skip``, for an element of a list: there a boolean takes one byte."""
        self._skip(_BYTE if kind in (_TRUE, _FALSE) else kind, depth + 1)

    def _byte(self) -> int:
        value = self._data[self._at]
        self._at += 1
        return value

    def _varint(self) -> int:
        value = shift = 0
        for _ in range(_MAX_VARINT):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise FooterDamage("a number has too many bytes")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _bounded(self, size: int) -> int:
        """A count of bytes, or of elements; each element has at least one byte."""
        if size > len(self._data) - self._at:
            raise FooterDamage("a value is longer than the footer")
        return size

    def _binary(self) -> bytes:
        size = self._bounded(self._varint())
        value = self._data[self._at : self._at + size]
        self._at += size
        return value
