"""A connection's one receive buffer, used again for every frame.

A frame's length is the sender's word, so the buffer grows only as bytes arrive, by doubling,
and a large one is given back after the frame that needed it.
"""

import struct
from typing import Final

_LENGTH: Final = struct.Struct(">i")
_API_KEY: Final = struct.Struct(">h")
START_SIZE: Final = 64 * 1024
KEPT_SIZE: Final = 1024 * 1024 + START_SIZE
"""A buffer up to this size is kept between frames: a producer's default largest request."""


class FrameTooLarge(Exception):
    """Raised when a frame's length is not positive or above the limit."""


class ReceiveBuffer:
    """Bytes come in at ``space``, frames go out of ``next_frame``."""

    __slots__ = ("_end", "_limit", "_start", "_view")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._view = memoryview(bytearray(START_SIZE))
        self._start = 0
        self._end = 0

    @property
    def capacity(self) -> int:
        return len(self._view)

    def space(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._view) > KEPT_SIZE:
                self._view = memoryview(bytearray(START_SIZE))
        elif self._needed() > len(self._view):
            self._make_room()
        return self._view[self._end :]

    def received(self, count: int) -> None:
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame, good until ``space`` is called; None where there is none.

        Raises ``FrameTooLarge`` as soon as a length shows that the rest is not worth reading.
        """
        have = self._end - self._start
        if have < 4:
            return None
        (length,) = _LENGTH.unpack_from(self._view, self._start)
        if length <= 0 or length > self._limit:
            raise FrameTooLarge(self._describe(length))
        if have - 4 < length:
            return None
        start = self._start + 4
        self._start = end = start + length
        return self._view[start:end].toreadonly()

    def coming(self) -> int | None:
        """The API key of the frame that is not whole yet; None where that is not known."""
        if self._end - self._start < _LENGTH.size + _API_KEY.size:
            return None
        return int(_API_KEY.unpack_from(self._view, self._start + _LENGTH.size)[0])

    def _needed(self) -> int:
        """Where in the buffer the frame that is coming in would end."""
        if self._end - self._start < 4:
            return self._start + START_SIZE // 4
        return self._start + 4 + int(_LENGTH.unpack_from(self._view, self._start)[0])

    def _make_room(self) -> None:
        have = self._end - self._start
        size = len(self._view)
        if have == size:
            size = min(2 * size, self._needed() - self._start)
        elif self._start == 0:
            return
        view = self._view if size == len(self._view) else memoryview(bytearray(size))
        view[:have] = self._view[self._start : self._end]
        self._view = view
        self._start, self._end = 0, have

    def _describe(self, length: int) -> str:
        head = bytes(self._view[self._start : self._start + 4])
        if head in {b"GET ", b"POST", b"HEAD", b"PUT "}:
            return "an HTTP request came in; this port speaks the Kafka protocol"
        if head[:2] == b"\x16\x03":
            return "a TLS handshake came in; this port speaks plain text"
        return f"a request of {length} bytes, where 1 to {self._limit} are allowed"
