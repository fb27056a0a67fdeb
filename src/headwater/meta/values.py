"""The encoding of values in the metadata store.

Each value is a msgpack map with its format version under ``v``. Fields that this release does
not know are kept and written back. A format version that it does not know is refused.
"""

from functools import cache
from typing import Any, TypeVar

import msgspec

from headwater.errors import UnknownFormat

_encoder = msgspec.msgpack.Encoder()

V = TypeVar("V", bound="Value")


class Value(
    msgspec.Struct,
    dict=True,
    omit_defaults=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="v",
    tag=1,
):
    """The root of stored values; ``unknown`` holds the fields of newer releases.

    A kind's format version is its ``tag``: a kind in its second format is declared with
    ``tag=2``.
    """

    @property
    def unknown(self) -> dict[str, Any]:
        kept: dict[str, Any] = self.__dict__.get("unknown", {})
        return kept


class NextNumber(Value):
    """A counter: the next number to allocate."""

    next: int = 0


def format_of(kind: type[Value]) -> int:
    """The format version that this release writes."""
    version = kind.__struct_config__.tag
    assert isinstance(version, int)
    return version


def encode(value: Value) -> bytes:
    if value.__dict__:
        known = msgspec.to_builtins(value, builtin_types=(bytes,))
        return _encoder.encode(known | value.unknown)
    return _encoder.encode(value)


def decode(kind: type[V], data: bytes) -> V:
    """Raises ``UnknownFormat`` if the value was written in a newer format."""
    try:
        value: V = _decoder(kind).decode(data)
    except msgspec.ValidationError:
        return _decode_foreign(kind, data)
    return value


def _decode_foreign(kind: type[V], data: bytes) -> V:
    """Decode a value of another release: with unknown fields, or in an unknown format."""
    fields: dict[str, Any] = msgspec.msgpack.decode(data)
    version, known = fields.get("v"), format_of(kind)
    if version != known:
        raise UnknownFormat(
            f"{kind.__name__} has format {version}, this release knows {known}; "
            "run a newer release of headwater on this data"
        )
    names = {"v", *kind.__struct_fields__}
    value = msgspec.convert({name: fields[name] for name in names & fields.keys()}, kind)
    value.__dict__["unknown"] = {name: fields[name] for name in fields.keys() - names}
    return value


@cache
def _decoder(kind: type[V]) -> msgspec.msgpack.Decoder[V]:
    return msgspec.msgpack.Decoder(kind)
