"""The socket side of a connection: it reads frames, pauses reads, and closes the socket.

Rules.
- The socket is read only while the backlog has room, the client is not throttled, and, if it
  produces, the engine has room for its records.
- A protocol error closes this connection with one logged reason. Other connections go on.

``Connection`` adds the request side: it parses, admits, dispatches and answers.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import takewhile
from typing import Final, cast

from headwater.broker.network.backlog import Backlog
from headwater.broker.network.backpressure import BackpressureGate
from headwater.broker.network.client_session import ClientSession
from headwater.broker.network.pending_request import PendingRequest
from headwater.broker.network.read_coalescing import ReadCoalescer, ReadSocket
from headwater.broker.network.receive_buffer import FrameTooLarge, ReceiveBuffer
from headwater.broker.services import Services
from headwater.errors import MalformedRequest
from headwater.wire.messages.api_versions import ApiKey

# Both sides of a connection log under one name, so that one level applies to both.
log = logging.getLogger("headwater.broker.network.connection")

_WRITE_BUFFER: Final = 256 * 1024
"""If more reply bytes than this wait in the transport, no further request is started."""
_HALF_CLOSED_SECONDS: Final = 1.0
"""After a client has closed its sending side, its requests have this long to be answered."""


class ClientSocket(asyncio.BufferedProtocol, ABC):
    """The protocol of one accepted socket, without the handling of its requests."""

    def __init__(
        self,
        services: Services,
        session: ClientSession,
        gate: BackpressureGate,
        coalescer: ReadCoalescer,
        shared: memoryview,
    ) -> None:
        self._services = services
        self._session = session
        self._quotas = services.dynamic.quotas
        self._gate = gate
        self._coalescer = coalescer
        self._loop = asyncio.get_running_loop()
        self._buffer = ReceiveBuffer(shared)
        self._backlog = Backlog(services.settings, gate.bytes_per_client)
        self._transport: asyncio.Transport | None = None
        self._socket: ReadSocket | None = None
        self._active_at = self._loop.time()
        """When bytes last arrived, a reply was last sent, or the client last read reply bytes."""
        self._unsent = 0
        """Reply bytes in the transport at the last call of ``notice_reading``."""
        self._reading = True
        self._writable = True
        self._ending = False
        """No more requests are read; the connection closes when the backlog is empty."""
        self._frames_left = False
        """The receive buffer may hold whole frames that did not fit into the backlog."""
        self._taking_frames: asyncio.Handle | None = None
        self._produces = False
        """The client has sent a Produce request or its first bytes: the engine's room applies."""
        self._throttle: asyncio.TimerHandle | None = None
        """Set while the client is throttled: nothing is read and no request is started."""
        self._drained: asyncio.Future[None] | None = None
        """Set while ``finish`` waits for the backlog to become empty."""

    # What the request side implements.

    @abstractmethod
    def _receive(self, frame: memoryview) -> bool:
        """Queue the request in a frame; False if the connection refuses it and closes."""

    @abstractmethod
    def _start_requests(self) -> None:
        """Start the waiting requests that may be started now."""

    @abstractmethod
    def _awaits_flush(self) -> bool:
        """Whether the newest request was appended to the log and has no reply yet."""

    # Protocol callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        self._socket = transport.get_extra_info("socket")
        name = transport.get_extra_info("peername")
        self._session.peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "?"
        if self._quotas.counts_connections and isinstance(name, tuple):
            wait = self._quotas.charge_connection(name[0])
            if wait:
                self._close_after(wait)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._throttle is not None:
            self._throttle.cancel()
        self._gate.forget(self)
        self._services.fetch_sessions.disconnected(self._session.peer)
        if self._socket is not None:
            self._coalescer.forget(self._socket)
        self._report_drained()

    def eof_received(self) -> bool:
        """Give started requests one second to be answered, and drop the waiting ones.

        A client that died looks the same as one that closed its sending side. Its long poll must
        not stay open. Its waiting requests must not be carried out, because it may have sent newer
        ones on another connection. Produce requests with acks=0 are the exception: their client
        may close the socket as soon as it has sent them.
        """
        self._drop_waiting(takewhile(PendingRequest.expects_no_reply, self._backlog.waiting))
        if self._backlog.empty:
            return False
        self._loop.call_later(_HALF_CLOSED_SECONDS, self._close)
        return True

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._start_requests()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.received(nbytes)
        self._active_at = self._loop.time()
        self._take_frames()

    # Reading.

    def _take_frames(self) -> None:
        """Queue the frames in the receive buffer while the backlog has room, and start them."""
        buffer, backlog = self._buffer, self._backlog
        eligible_before = self._coalescer.inline_eligible_appends
        self._frames_left = False
        try:
            while not backlog.full:
                frame = buffer.next_frame(self._session.max_request_bytes)
                if frame is None:
                    break
                if not self._receive(frame):
                    return
            else:
                self._frames_left = True
            self._produces = self._produces or buffer.incomplete_api_key() == ApiKey.PRODUCE
        except (FrameTooLarge, MalformedRequest) as error:
            self._refuse(str(error))
            return
        finally:
            buffer.keep_rest()
        self._start_requests()
        self._regulate_reading()
        if self._socket is not None and self._awaits_flush():
            self._coalescer.delay_reads(self._socket, eligible_before)

    def _take_left_frames(self) -> None:
        self._taking_frames = None
        if self._transport is not None and not self._ending:
            self._buffer.space()
            self._take_frames()

    def _regulate_reading(self) -> None:
        """Pause or resume reading, so that the socket is read only while there is room."""
        if self._transport is None or self._transport.is_closing():
            return
        paused = (
            self._backlog.full
            or self._ending
            or self._throttle is not None
            or (self._produces and not self._gate.admits(self))
        )
        if self._frames_left and not paused and self._taking_frames is None:
            self._taking_frames = self._loop.call_soon(self._take_left_frames)
        paused = paused or self._frames_left
        if paused and self._reading:
            self._reading = False
            self._transport.pause_reading()
        elif not paused and not self._reading:
            self._reading = True
            self._transport.resume_reading()

    def room_available(self) -> None:
        """The engine has room again: read on."""
        self._start_requests()
        self._regulate_reading()

    # Throttling.

    def _throttle_client(self, milliseconds: int) -> None:
        """Read nothing and start no request for this time, even if the client ignores the
        throttle time in its reply.
        """
        until = self._loop.time() + milliseconds / 1000
        if self._throttle is not None:
            if self._throttle.when() >= until:
                return
            self._throttle.cancel()
        self._throttle = self._loop.call_at(until, self._end_throttle)
        self._regulate_reading()

    def _end_throttle(self) -> None:
        if self._throttle is not None:
            self._throttle.cancel()
            self._throttle = None
        self._start_requests()
        self._regulate_reading()

    # Idle connections.

    def idle_seconds(self) -> float:
        """Seconds since the client last sent or read; 0 while it waits for the broker."""
        waits = self._writable and not self._backlog.empty
        return 0.0 if waits else self._loop.time() - self._active_at

    @property
    def evictable(self) -> bool:
        """Whether no request is unanswered and no reply byte is unsent."""
        return self._backlog.empty and not self._unsent_bytes()

    def notice_reading(self) -> None:
        """Count it as activity if the client has read reply bytes since the last context."""
        unsent = self._unsent_bytes()
        if unsent != self._unsent:
            self._unsent = unsent
            self._active_at = self._loop.time()

    def _unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def release_buffer(self) -> None:
        """Free the memory that only a busy connection needs."""
        self._buffer.release()

    # Closing.

    def _refuse(self, reason: str) -> None:
        """Close the connection because of what the client sent."""
        if self._transport is not None and not self._transport.is_closing():
            log.warning(
                "Closing a connection", extra={"peer": self._session.peer, "reason": reason}
            )
            self._drop_waiting()
            self._transport.close()

    def _drop_waiting(self, kept: Iterable[PendingRequest] = ()) -> None:
        """Read no more, and drop the waiting requests except ``kept``."""
        self._backlog.drop_waiting(kept)
        self._ending = True
        self._regulate_reading()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _close_after(self, milliseconds: int) -> None:
        """Read nothing, and close after this time: the client's address is over its quota for
        new connections.
        """
        self._ending = True
        self._regulate_reading()
        self._loop.call_later(milliseconds / 1000, self._close)

    def _report_drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    async def finish(self) -> None:
        """Read no more, and return when every request in the backlog is answered."""
        if self._transport is None:
            return
        self._ending = True
        if self._reading:
            self._reading = False
            self._transport.pause_reading()
        if self._throttle is not None:
            self._end_throttle()
        if self._backlog.empty:
            self._transport.close()
            return
        self._drained = self._loop.create_future()
        await self._drained

    def abort(self) -> None:
        """Close the socket at once and drop unsent replies."""
        if self._transport is not None:
            self._transport.abort()
