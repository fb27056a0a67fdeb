"""How a connection receives frames without a buffer of its own while it is idle.

All connections read into one shared buffer, because the loop takes the bytes of one read before it
begins another. What is left of a frame that has not come whole is kept apart: as a copy of just
these bytes, or in a buffer of the connection's own if the frame is large. A frame's length is the
sender's word, so an own buffer is made when half a shared one has come, and grows by doubling as
bytes arrive. It is used again while the connection is busy, and given back by ``release``.
"""

import struct
from typing import Final

_LENGTH: Final = struct.Struct(">i")
_API_KEY: Final = struct.Struct(">h")
SHARED_SIZE: Final = 64 * 1024
KEPT_SIZE: Final = 1024 * 1024 + SHARED_SIZE
"""An own buffer up to this size is kept between frames: a producer's default largest request."""


class FrameTooLarge(Exception):
    """Raised when a frame's length is not positive or above the limit."""


def shared_buffer() -> memoryview:
    """What the connections of one loop read into."""
    return memoryview(bytearray(SHARED_SIZE))


class ReceiveBuffer:
    """Bytes come in at ``space``, frames go out of ``next_frame``, ``keep_rest`` ends each read."""

    __slots__ = ("_end", "_own", "_rest", "_shared", "_start", "_view")

    def __init__(self, shared: memoryview) -> None:
        self._shared = shared
        self._own: memoryview | None = None
        self._rest = b""
        """What came of a frame that is put into the shared buffer again before the next read."""
        self._view = shared
        self._start = 0
        self._end = 0

    @property
    def capacity(self) -> int:
        """Bytes of memory that the connection holds for itself."""
        return len(self._rest) + (0 if self._own is None else len(self._own))

    def space(self) -> memoryview:
        """Where the next bytes go, until ``received`` is called; never empty."""
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
        """The next whole frame, good until ``space`` is called; None where there is none.

        Raises ``FrameTooLarge`` as soon as the length of one shows that it is above ``limit``.
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

    def coming(self) -> int | None:
        """The API key of the frame that is not whole yet; None where that is not known."""
        if self._end - self._start < _LENGTH.size + _API_KEY.size:
            return None
        return int(_API_KEY.unpack_from(self._view, self._start + _LENGTH.size)[0])

    def keep_rest(self) -> None:
        """Leave the shared buffer to others; call this after each read."""
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
        """Give back what an idle connection does not need."""
        if self._own is not None and self._start == self._end:
            self._drop_own()

    def _drop_own(self) -> None:
        self._own, self._view = None, self._shared
        self._start = self._end = 0

    def _frame_end(self) -> int:
        """Where in the buffer the frame that is coming in would end."""
        if self._end - self._start < 4:
            return self._start + SHARED_SIZE // 4
        return self._start + 4 + int(_LENGTH.unpack_from(self._view, self._start)[0])

    def _make_room(self, own: memoryview) -> None:
        """Have room behind the frame that is coming in: more, or what is in front of it."""
        have = self._end - self._start
        if have == len(own):
            self._move(memoryview(bytearray(min(2 * have, self._frame_end() - self._start))))
        elif self._start > 0:
            self._move(own)

    def _move(self, own: memoryview) -> None:
        """Bring the frame that is coming in to the start of an own buffer."""
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
        return f"a request of {length} bytes, where 1 to {limit} are allowed"
