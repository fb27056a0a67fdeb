"""Receives frames without a buffer for each idle connection.

All connections read into one shared buffer, because the loop handles the bytes of one read before
it begins another. The bytes of an incomplete frame are kept apart: as a copy, or in the
connection's own buffer if the frame is large. A client could announce a large frame and send
nothing. So the own buffer is allocated when half the shared buffer has arrived, and doubles as
bytes arrive. It is reused while the connection is busy, and ``release`` frees it.
"""

import struct
from typing import Final

_LENGTH: Final = struct.Struct(">i")
_API_KEY: Final = struct.Struct(">h")
SHARED_SIZE: Final = 64 * 1024
KEPT_SIZE: Final = 1024 * 1024 + SHARED_SIZE
"""An own buffer of at most this size is kept between frames: 1 MiB is a producer's default
``max.request.size``."""


class FrameTooLarge(Exception):
    """Raised when a frame's length is not positive or above the limit."""


def shared_buffer() -> memoryview:
    """The buffer that all connections of one event loop read into."""
    return memoryview(bytearray(SHARED_SIZE))


class ReceiveBuffer:
    """``space`` takes the bytes of a read, ``next_frame`` returns frames, and ``keep_rest`` ends
    each read.
    """

    __slots__ = ("_end", "_own", "_rest", "_shared", "_start", "_view")

    def __init__(self, shared: memoryview) -> None:
        self._shared = shared
        self._own: memoryview | None = None
        self._rest = b""
        """The first bytes of an incomplete frame; the next read puts them back in front."""
        self._view = shared
        self._start = 0
        self._end = 0

    @property
    def capacity(self) -> int:
        """Bytes of memory that this connection holds."""
        return len(self._rest) + (0 if self._own is None else len(self._own))

    def space(self) -> memoryview:
        """The free part of the buffer, for the next read; never empty."""
        if self._own is not None:
            if self._start == self._end:
                self._start = self._end = 0
            elif self._frame_end() > len(self._own):
                self._make_room(self._own)
            return self._view[self._end :]
        self._start, self._end = 0, len(self._rest)
        self._shared[: self._end] = self._rest
        return self._shared[self._end :]

    def received(self, count: int) -> None:
        self._end += count

    def next_frame(self, limit: int) -> memoryview | None:
        """The next whole frame, valid until ``space`` is called; None if none is complete.

        Raises ``FrameTooLarge`` as soon as a frame's length exceeds ``limit``.
        """
        have = self._end - self._start
        if have < 4:
            return None
        (length,) = _LENGTH.unpack_from(self._view, self._start)
        if length <= 0 or length > limit:
            raise FrameTooLarge(self._describe(length, limit))
        if have - 4 < length:
            return None
        start = self._start + 4
        self._start = end = start + length
        return self._view[start:end].toreadonly()

    def incomplete_api_key(self) -> int | None:
        """The API key of the incomplete frame; None if it has not arrived yet."""
        if self._end - self._start < _LENGTH.size + _API_KEY.size:
            return None
        return int(_API_KEY.unpack_from(self._view, self._start + _LENGTH.size)[0])

    def keep_rest(self) -> None:
        """Free the shared buffer for other connections; call this after each read."""
        if self._own is not None:
            if self._start == self._end and len(self._own) > KEPT_SIZE:
                self._drop_own()
            return
        have = self._end - self._start
        if not have:
            self._rest = b""
            return
        size = self._frame_end() - self._start
        if have <= SHARED_SIZE // 2 or size <= SHARED_SIZE:
            self._rest = bytes(self._shared[self._start : self._end])
        else:
            self._rest = b""
            self._move(memoryview(bytearray(min(2 * SHARED_SIZE, size))))

    def release(self) -> None:
        """Free the own buffer if it is empty."""
        if self._own is not None and self._start == self._end:
            self._drop_own()

    def _drop_own(self) -> None:
        self._own, self._view = None, self._shared
        self._start = self._end = 0

    def _frame_end(self) -> int:
        """The position at which the incomplete frame will end."""
        if self._end - self._start < 4:
            return self._start + SHARED_SIZE // 4
        return self._start + 4 + int(_LENGTH.unpack_from(self._view, self._start)[0])

    def _make_room(self, own: memoryview) -> None:
        """Make room for the incomplete frame: grow a full buffer, or move the frame to its
        start.
        """
        have = self._end - self._start
        if have == len(own):
            self._move(memoryview(bytearray(min(2 * have, self._frame_end() - self._start))))
        elif self._start > 0:
            self._move(own)

    def _move(self, own: memoryview) -> None:
        """Copy the incomplete frame to the start of ``own``, which becomes the buffer."""
        have = self._end - self._start
        own[:have] = self._view[self._start : self._end]
        self._own = self._view = own
        self._start, self._end = 0, have

    def _describe(self, length: int, limit: int) -> str:
        head = bytes(self._view[self._start : self._start + 4])
        if head in {b"GET ", b"POST", b"HEAD", b"PUT "}:
            return "an HTTP request came in; this port speaks the Kafka protocol"
        if head[:2] == b"\x16\x03":
            return "a TLS handshake came in; this port speaks plain text"
        return f"a request has {length} bytes; 1 to {limit} are allowed"
