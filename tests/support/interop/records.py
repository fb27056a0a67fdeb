"""The records that travel between clients, and what each kind of them puts to the proof."""

from dataclasses import dataclass
from enum import StrEnum

Codec = str
CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")


class Feature(StrEnum):
    """What a client may be able to send; every reading client must see it unchanged."""

    KEYS = "keys"
    NULL_VALUES = "null values"
    HEADERS = "headers"
    DUPLICATE_HEADERS = "headers, the same key twice"
    EMPTY_HEADERS = "headers with empty values"
    NULL_HEADERS = "headers with null values"
    TIMESTAMPS = "timestamps set by the client"
    BINARY = "arbitrary bytes in key, value and header"
    LARGE = "large messages (900 KB)"


@dataclass(frozen=True, slots=True)
class InteropRecord:
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    """None where the sender leaves the time to its client."""


@dataclass(frozen=True, slots=True)
class Received:
    offset: int
    timestamp_ms: int
    record: InteropRecord
    """With ``timestamp_ms`` None, so that it compares equal to what was sent without one."""


def numbered(count: int, *, first: int = 0, tag: str = "value") -> list[InteropRecord]:
    """Records that tell their place; long enough that every codec has something to do."""
    return [
        InteropRecord(f"{tag}-{place}-{'abcdefgh' * 20}".encode(), f"key-{place % 7}".encode())
        for place in range(first, first + count)
    ]


DAY_MS = 86_400_000
LONG_AGO_MS = 1_700_000_000_000
"""A fixed time in the past."""

ALL_BYTES = bytes(range(256))

SAMPLES: dict[Feature, list[InteropRecord]] = {
    Feature.KEYS: [
        InteropRecord(b"v0", b"a-key"),
        InteropRecord(b"v1", None),
        InteropRecord(b"v2", "ключ-キー".encode()),
        InteropRecord(b"v3", b"k" * 2000),
    ],
    Feature.NULL_VALUES: [
        InteropRecord(None, b"tombstone"),
        InteropRecord(b"alive", b"k"),
        InteropRecord(None, b"k"),
    ],
    Feature.HEADERS: [
        InteropRecord(b"v0", b"k", (("trace", b"abc"), ("content-type", b"text/plain"))),
        InteropRecord(b"v1", b"k", ()),
        InteropRecord(b"v2", b"k", (("naïve-é", "wert-ß".encode()),)),
    ],
    Feature.DUPLICATE_HEADERS: [
        InteropRecord(b"v", b"k", (("h", b"1"), ("other", b"2"), ("h", b"3")))
    ],
    Feature.EMPTY_HEADERS: [InteropRecord(b"v", b"k", (("empty", b""), ("full", b"x")))],
    Feature.NULL_HEADERS: [InteropRecord(b"v", b"k", (("null", None), ("full", b"x")))],
    Feature.TIMESTAMPS: [
        InteropRecord(f"v{place}".encode(), b"k", (), LONG_AGO_MS + step)
        for place, step in enumerate((0, 1, 999, DAY_MS, 5, 2 * DAY_MS))
    ],
    Feature.BINARY: [
        InteropRecord(ALL_BYTES, ALL_BYTES[::-1], (("bytes", ALL_BYTES),)),
        InteropRecord(b"\x00", b"", ()),
        InteropRecord(b"", b"\xff\xfe", ()),
    ],
    Feature.LARGE: [
        InteropRecord(b"small", b"k"),
        InteropRecord(b"0123456789" * 90_000, b"k"),
        InteropRecord(b"after", b"k"),
    ],
}
