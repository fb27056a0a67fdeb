"""One client's connection: frames in, requests in order, replies out in order.

Rules.
- Requests are taken up in order of arrival. Consecutive Produce requests overlap: each is
  admitted in its turn and they complete together. Any other request waits until every earlier
  one is answered and is handled alone, as Kafka's own broker does.
- Replies leave in the order of their requests.
- A connection is not read while too much of it is unanswered, and one that produces while the
  engine has no room; none of its requests is taken up while its replies are not being read.
- A client over its quota is answered at once and then left alone for as long as it was told.
- Large requests are parsed, and large replies written, outside the event loop.
- Whatever goes wrong closes this connection, with one logged reason, and no other.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import takewhile
from time import perf_counter
from typing import Final, TypeVar, cast

from headwater.broker.backlog import Backlog
from headwater.broker.dispatch import Api
from headwater.broker.failures import reply_to_failure
from headwater.broker.gathering import Gathering, ReadSocket
from headwater.broker.loop_delay import LoopDelay
from headwater.broker.pending_request import PendingRequest
from headwater.broker.quotas_throttle import Timed, throttle_ms
from headwater.broker.receive_buffer import FrameTooLarge, ReceiveBuffer
from headwater.broker.replies import Encoded, NoReply, Reply, encode_reply, is_large
from headwater.broker.room import RoomGate
from headwater.broker.services import Call, Services
from headwater.errors import KafkaError, MalformedRequest, RequestSuperseded
from headwater.wire.api_versions import ApiKey, is_served
from headwater.wire.encoder import Segments
from headwater.wire.requests import Header, Request, parse_request, read_header
from headwater.work_budget import SLOW_TURN_SECONDS, TURN_SECONDS, needs_thread

log = logging.getLogger(__name__)

T = TypeVar("T")

_WRITE_BUFFER: Final = 256 * 1024
"""What may wait to be sent before requests are no longer taken up."""
_SMALL: Final = 1024
"""A request of no more bytes is parsed as it comes, even if its turn has not come."""
_LARGE_FAILURE: Final = 16 * 1024
"""A failed request of more bytes may name thousands of things, and each is told the error."""
_HALF_CLOSED_SECONDS: Final = 1.0
"""How long a client that sends no more may wait for answers."""


class Connection(asyncio.BufferedProtocol):
    """The protocol of one accepted socket."""

    def __init__(
        self,
        services: Services,
        apis: Mapping[int, Api],
        gate: RoomGate,
        gathering: Gathering,
        delay: LoopDelay,
        shared: memoryview,
        closed: Callable[["Connection"], None],
    ) -> None:
        self._services = services
        self._quotas = services.dynamic.quotas
        self._apis = apis
        self._gate = gate
        self._gathering = gathering
        self._delay = delay
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._buffer = ReceiveBuffer(services.settings.max_request_bytes, shared)
        self._active_at = self._loop.time()
        """When bytes came, an answer went, or some of one was seen to be read, last."""
        self._unsent = 0
        self._backlog = Backlog(services.settings, gate.share)
        self._task: asyncio.Task[None] | None = None
        self._taking_up = False
        self._more = False
        """The receive buffer may have whole frames for which the backlog had no room."""
        self._taking_more: asyncio.Handle | None = None
        self._resuming: asyncio.Handle | None = None
        self._sending: asyncio.Handle | None = None
        self._writable = True
        self._reading = True
        self._ending = False
        self._produces = False
        """It has sent a Produce request, or begun to; only then it waits for the engine's room."""
        self._muted: asyncio.TimerHandle | None = None
        """Set while the client is throttled; then nothing of it is read or taken up."""
        self._idle: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._socket: ReadSocket | None = None
        self._peer = "?"

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        self._socket = transport.get_extra_info("socket")
        name = transport.get_extra_info("peername")
        self._peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "?"
        if self._quotas.counts_connections and isinstance(name, tuple):
            wait = self._quotas.connected(name[0])
            if wait:
                self._hold_off(wait)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._backlog.clear()
        if self._task is not None:
            self._task.cancel()
        if self._muted is not None:
            self._muted.cancel()
        self._gate.release(self)
        self._services.fetch_sessions.disconnected(self._peer)
        if self._socket is not None:
            self._gathering.leave(self._socket)
        self._wake_idle()
        self._closed(self)

    def eof_received(self) -> bool:
        """The client sends no more; what was taken up is still answered, for a moment.

        A client that has gone looks the same: it must not keep its long poll waiting, and what it
        had queued to be answered is not done: it may have sent newer things elsewhere since.
        """
        self._take_no_more(takewhile(PendingRequest.is_silent, self._backlog.waiting))
        if self._backlog.empty:
            return False
        self._loop.call_later(_HALF_CLOSED_SECONDS, self._end)
        return True

    def _end(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._take_up()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.received(nbytes)
        self._active_at = self._loop.time()
        self._take_frames()

    # Reading.

    def _take_frames(self) -> None:
        """Queue what has come, as long as there is room in the backlog."""
        buffer, backlog = self._buffer, self._backlog
        hurried = self._gathering.hurried
        self._more = False
        try:
            while not backlog.full:
                frame = buffer.next_frame()
                if frame is None:
                    break
                if not self._receive(frame):
                    return
            else:
                self._more = True
            self._produces = self._produces or buffer.coming() == ApiKey.PRODUCE
        except (FrameTooLarge, MalformedRequest) as error:
            self._refuse(str(error))
            return
        finally:
            buffer.keep_rest()
        self._take_up()
        self._regulate_reading()
        if self._socket is not None and self._waits_for_flush():
            self._gathering.rest(self._socket, hurried)

    def _take_more_frames(self) -> None:
        self._taking_more = None
        if self._transport is not None and not self._ending:
            self._buffer.space()
            self._take_frames()

    def _receive(self, frame: memoryview) -> bool:
        """Queue the request in a frame; False where the connection is at its end."""
        header = read_header(frame)
        api = self._apis.get(header.api_key)
        if api is None:
            self._refuse(f"API key {header.api_key} is not served")
            return False
        if not is_served(header.api_key, header.version):
            if header.api_key != ApiKey.API_VERSIONS:
                self._refuse(f"{api.name} version {header.version} is not served")
                return False
            call, body = Call(header.version, None, self._peer), None
        elif self._must_wait(header, len(frame)):
            call, body = Call(header.version, None, self._peer), bytes(frame)
        else:
            if header.api_key == ApiKey.PRODUCE:
                self._produces = True
                frame = memoryview(bytes(frame))  # its records outlive the receive buffer
            parsed = parse_request(frame)
            call, body = Call(header.version, parsed.client_id, self._peer), parsed.payload
        request = PendingRequest(api, header, call, body, len(frame), self._active_at)
        self._backlog.arrived(request)
        return True

    def _must_wait(self, header: Header, size: int) -> bool:
        """Whether a request stays bytes until its turn: parsed it may take 50 times as many."""
        if header.api_key == ApiKey.PRODUCE:
            return False
        return needs_thread(size) or (size > _SMALL and not self._backlog.empty)

    def _refuse(self, reason: str) -> None:
        if self._transport is not None and not self._transport.is_closing():
            log.warning("closing the connection of %s: %s", self._peer, reason)
            self._take_no_more()
            self._transport.close()

    def _take_no_more(self, kept: Iterable[PendingRequest] = ()) -> None:
        """What is behind a request that ends the connection must not be done without it."""
        self._backlog.keep_waiting(kept)
        self._ending = True
        self._regulate_reading()

    def _regulate_reading(self) -> None:
        """Read from the socket exactly while there is room for what comes."""
        if self._transport is None or self._transport.is_closing():
            return
        held = (
            self._backlog.full
            or self._ending
            or self._muted is not None
            or (self._produces and not self._gate.admits(self))
        )
        if self._more and not held and self._taking_more is None:
            self._taking_more = self._loop.call_soon(self._take_more_frames)
        full = held or self._more
        if full and self._reading:
            self._reading = False
            self._transport.pause_reading()
        elif not full and not self._reading:
            self._reading = True
            self._transport.resume_reading()

    def room_returned(self) -> None:
        """The gate calls this when the engine has room again."""
        self._take_up()
        self._regulate_reading()

    # Handling.

    def _take_up(self) -> None:
        """Start every request whose turn has come, and yield to other clients in between."""
        if self._taking_up:
            return
        self._taking_up = True
        backlog = self._backlog
        spent = 0.0
        try:
            while backlog.waiting and self._task is None and self._writable and self._muted is None:
                request = backlog.waiting[0]
                if request.api.admit is None and backlog.unanswered:
                    break
                if request.api.admit is not None and not self._gate.admits(self):
                    break
                if spent >= TURN_SECONDS:
                    self._take_up_soon()
                    break
                backlog.take_up()
                if isinstance(request.body, bytes) and needs_thread(request.size):
                    parse = partial(_try_to_parse, request.body)
                    self._aside(request, parse, partial(self._parsed, request))
                else:
                    spent += self._start_timed(request)
        finally:
            self._taking_up = False
        if self._transport is not None and not self._reading:
            self._regulate_reading()
        if backlog.empty:
            self._wake_idle()
            if self._ending:
                self._end()

    def _parsed(self, request: PendingRequest, parsed: Request | MalformedRequest) -> None:
        if self._fill(request, parsed):
            self._start_timed(request)

    def _fill(self, request: PendingRequest, parsed: Request | MalformedRequest) -> bool:
        """The turn of a request has come that stayed bytes until then; False if it is refused."""
        if isinstance(parsed, MalformedRequest):
            self._refuse(str(parsed))
            return False
        request.call = Call(request.header.version, parsed.client_id, self._peer)
        request.body = parsed.payload
        return True

    def _take_up_soon(self) -> None:
        if self._resuming is None:
            self._resuming = self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._resuming = None
        self._take_up()

    def _start_timed(self, request: PendingRequest) -> float:
        """Start a request; the seconds that it held the loop."""
        began = perf_counter()
        body = request.body
        if not isinstance(body, bytes) or self._fill(request, _try_to_parse(body)):
            self._start(request)
        seconds = perf_counter() - began
        self._spent(request, seconds)
        return seconds

    def _start(self, request: PendingRequest) -> None:
        api = request.api
        try:
            if api.admit is not None:

                def done(reply: Reply | NoReply) -> None:
                    self._finish(request, reply)

                admission = api.admit(self._services, request.body, request.call, done)
                if admission is not None:
                    self._task = self._loop.create_task(self._wait_for(request, admission))
                else:
                    request.body = None  # what the log has of it is all that is still needed
                return
            assert api.handle is not None
            outcome = api.handle(self._services, request.body, request.call)
            if isinstance(outcome, dict | Encoded):
                self._finish(request, outcome)
            else:
                self._task = self._loop.create_task(self._wait_for(request, outcome))
        except Exception as error:  # noqa: BLE001 - a handler that fails must still answer
            self._fail(request, error)

    async def _wait_for(self, request: PendingRequest, outcome: Awaitable[Reply | None]) -> None:
        """Hold back the requests behind this one until its reply, or its admission, is there."""
        try:
            reply = await Timed(outcome, partial(self._spent, request))
        except Exception as error:  # noqa: BLE001 - a handler that fails must still answer
            self._task = None
            self._fail(request, error)
        else:
            self._task = None
            if reply is None:
                request.body = None
            else:
                self._finish(request, reply)
        self._take_up()

    def _waits_for_flush(self) -> bool:
        """Whether what came last has been appended and is not answered."""
        if self._task is not None or not self._backlog.unanswered:
            return False
        newest = self._backlog.unanswered[-1]
        return newest.api.admit is not None and newest.reply is None

    def _fail(self, request: PendingRequest, error: Exception) -> None:
        if request.reply is not None:
            log.error("%s failed after its reply", request.api.name, exc_info=error)
            return
        if not isinstance(error, KafkaError | RequestSuperseded):
            log.error("%s from %s failed", request.api.name, self._peer, exc_info=error)
        if request.api.admit is None and request.size > _LARGE_FAILURE:
            refuse = partial(reply_to_failure, request.body, request.header, error)
            self._aside(request, refuse, partial(self._finish, request))
        else:
            self._finish(request, reply_to_failure(request.body, request.header, error))

    def _aside(
        self, request: PendingRequest, work: Callable[[], T], then: Callable[[T], None]
    ) -> None:
        """Do ``work`` in a thread and ``then`` with its outcome, before later requests."""

        async def run() -> None:
            try:
                outcome = await self._loop.run_in_executor(self._services.executor, work)
            except Exception:
                log.exception("%s from %s failed", request.api.name, self._peer)
                self._task = None
                self._answer(request, NoReply.CLOSE)
                return
            self._task = None
            then(outcome)
            self._take_up()

        self._task = self._loop.create_task(run())

    # Answering.

    def _finish(self, request: PendingRequest, reply: Reply | NoReply) -> None:
        if self._transport is None or request.reply is not None:
            return
        wait = 0
        if self._quotas.active:
            wait = throttle_ms(
                self._quotas, request.header.api_key, request.call, request.size, reply
            )
            if wait:
                self._mute(wait)
        if isinstance(reply, NoReply):
            self._answer(request, reply)
        elif request.api.admit is None and is_large(reply):
            encode = partial(self._encode, request, reply, wait)
            self._aside(request, encode, partial(self._answer, request))
        else:
            self._answer(request, self._encode(request, reply, wait))

    def _answer(self, request: PendingRequest, reply: Segments | NoReply) -> None:
        if self._transport is None:
            return
        request.reply = reply
        request.body = None
        if request.reply is NoReply.CLOSE:
            self._take_no_more()
        if request.api.admit is None:
            self._send_ready()
        elif self._sending is None:
            # A commit answers many requests in one turn of the loop: they share one write.
            self._sending = self._loop.call_soon(self._send_ready)

    def _encode(self, request: PendingRequest, reply: Reply, wait: int) -> Segments | NoReply:
        api_key, version, correlation_id = request.header
        if api_key == ApiKey.API_VERSIONS and request.body is None:
            version = 0
        try:
            return encode_reply(api_key, version, correlation_id, reply, wait)
        except Exception:
            log.exception("the reply to %s cannot be encoded", request.api.name)
            return NoReply.CLOSE

    def _send_ready(self) -> None:
        self._sending = None
        answered = list(self._backlog.answered())
        if not answered:
            return
        segments: Segments = []
        self._active_at = now = self._loop.time()
        metrics = self._services.metrics
        for request in answered:
            if isinstance(request.reply, list):
                segments += request.reply
            metrics.requests[request.api.name].inc()
            metrics.request_seconds[request.api.name].observe(now - request.arrived)
        if self._transport is None or self._transport.is_closing():
            return
        if not self._backlog.unanswered and self._socket is not None:
            self._gathering.wake(self._socket)
        if segments:
            self._transport.writelines(segments)
        if any(request.reply is NoReply.CLOSE for request in answered):
            self._refuse("a request cannot be answered")
        elif self._task is None:
            self._take_up()

    # Throttling.

    def _spent(self, request: PendingRequest, seconds: float) -> None:
        """The loop worked that long for a request, its waiting not counted."""
        if seconds >= SLOW_TURN_SECONDS:
            self._delay.held(request.api.name, self._peer, seconds)
        if self._quotas.timed:
            self._quotas.spent(request.call.client_id, seconds)

    def _mute(self, milliseconds: int) -> None:
        """Leave the client alone; what it is told in the answer is not left to its good will."""
        until = self._loop.time() + milliseconds / 1000
        if self._muted is not None:
            if self._muted.when() >= until:
                return
            self._muted.cancel()
        self._muted = self._loop.call_at(until, self._unmute)
        self._regulate_reading()

    def _unmute(self) -> None:
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None
        self._take_up()
        self._regulate_reading()

    def _hold_off(self, milliseconds: int) -> None:
        """Too many connections come from there: this one is not served, and closed late."""
        self._ending = True
        self._regulate_reading()
        self._loop.call_later(milliseconds / 1000, self._end)

    # Idle.

    def idle_seconds(self) -> float:
        """For how long the client has sent nothing and read nothing; 0 while it waits for us."""
        waits = self._writable and not self._backlog.empty
        return 0.0 if waits else self._loop.time() - self._active_at

    @property
    def evictable(self) -> bool:
        """Nothing is under way in either direction."""
        return self._backlog.empty and not self._unsent_bytes()

    def notice_reading(self) -> None:
        """Count it as activity that the client has read something since the last call."""
        unsent = self._unsent_bytes()
        if unsent != self._unsent:
            self._unsent = unsent
            self._active_at = self._loop.time()

    def _unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def release_buffer(self) -> None:
        """Give back the memory that only a busy connection needs."""
        self._buffer.release()

    # Stopping.

    def _wake_idle(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def finish(self) -> None:
        """Take no more in, and return when what was asked is answered."""
        if self._transport is None:
            return
        self._ending = True
        if self._reading:
            self._reading = False
            self._transport.pause_reading()
        if self._muted is not None:
            self._unmute()
        if self._backlog.empty:
            self._transport.close()
            return
        self._idle = self._loop.create_future()
        await self._idle

    def abort(self) -> None:
        """Cut the connection now."""
        if self._transport is not None:
            self._transport.abort()


def _try_to_parse(frame: bytes) -> Request | MalformedRequest:
    try:
        return parse_request(frame)
    except MalformedRequest as error:
        return error
