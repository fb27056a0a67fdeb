"""How values are written in the metadata store.

Each is a msgpack map with its format version under ``v``. Fields that this release does not
know are kept and written back; a version that it does not know is refused.
"""

from functools import cache
from typing import Any, ClassVar, TypeVar

import msgspec

from headwater.errors import UnknownFormat

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()

V = TypeVar("V", bound="Value")


class Value(msgspec.Struct, dict=True, omit_defaults=True, kw_only=True):
    """The root of stored values; ``unknown`` holds the fields of newer releases."""

    FORMAT: ClassVar[int] = 1

    @property
    def unknown(self) -> dict[str, Any]:
        kept: dict[str, Any] = self.__dict__.get("unknown", {})
        return kept


def encode(value: Value) -> bytes:
    fields = msgspec.structs.asdict(value) if value.unknown else None
    if fields is not None:
        return _encoder.encode({"v": value.FORMAT, **fields, **value.unknown})
    body = _encoder.encode(value)
    assert 0x80 <= body[0] < 0x8F, "a map of fewer than 15 fields has room for one more"
    return bytes((body[0] + 1, 0xA1, 0x76, value.FORMAT)) + body[1:]


def decode(kind: type[V], data: bytes) -> V:
    """Raises ``UnknownFormat`` when the value was written in a newer format."""
    fields: dict[str, Any] = _decoder.decode(data)
    version = fields.pop("v")
    if version != kind.FORMAT:
        raise UnknownFormat(
            f"{kind.__name__} has format {version}, this release knows {kind.FORMAT}; "
            "run a newer release of headwater on this data"
        )
    value = msgspec.convert(fields, kind)
    unknown = fields.keys() - _known_fields(kind)
    if unknown:
        value.__dict__["unknown"] = {name: fields[name] for name in unknown}
    return value


@cache
def _known_fields(kind: type[Value]) -> frozenset[str]:
    return frozenset(kind.__struct_fields__)
