"""One client's connection: it handles requests in order, and sends the replies in order.

Rules.
- A request is checked against the session and parsed when it is started, because an earlier
  request may have changed the session since it arrived.
- Requests start in order of arrival. Consecutive Produce requests overlap, because one flush
  completes many. Any other request starts when every earlier one is answered, and is handled
  alone, as in Kafka's own broker.
- Replies leave in the order of their requests.
- No request starts while the client does not read its replies.
- A client over its quota gets its reply at once. The connection is then throttled for the time
  that the reply states.
- Large requests are parsed, and large replies encoded, in a thread.
- A failure closes at most this connection, with one logged reason.

``ClientSocket`` is the socket side: reading, pauses, idle time and closing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Final, TypeVar

from headwater.broker.loop_delay import LoopDelay
from headwater.broker.network.backpressure import BackpressureGate
from headwater.broker.network.client_session import ClientSession
from headwater.broker.network.client_socket import ClientSocket
from headwater.broker.network.dispatch import Api
from headwater.broker.network.error_replies import reply_to_failure
from headwater.broker.network.pending_request import PendingRequest
from headwater.broker.network.read_coalescing import ReadCoalescer
from headwater.broker.network.replies import EncodedReply, NoReply, Reply, encode_reply, is_large
from headwater.broker.quotas.throttle import TimedAwaitable, throttle_ms
from headwater.broker.services import RequestContext, Services
from headwater.errors import KafkaError, MalformedRequest, RequestSuperseded
from headwater.wire.messages.api_versions import ApiKey, is_served
from headwater.wire.messages.encoder import Segments
from headwater.wire.messages.requests import Header, Request, parse_request, read_header
from headwater.work_budget import SLOW_TURN_SECONDS, TURN_SECONDS, needs_thread

log = logging.getLogger(__name__)

T = TypeVar("T")

_LARGE_FAILURE: Final = 16 * 1024
"""A larger request may name thousands of entries: its error reply is built in a thread."""


class Connection(ClientSocket):
    """The protocol of one accepted socket, with the handling of its requests."""

    def __init__(
        self,
        services: Services,
        session: ClientSession,
        apis: Mapping[int, Api],
        gate: BackpressureGate,
        coalescer: ReadCoalescer,
        delay: LoopDelay,
        shared: memoryview,
        closed: Callable[["Connection"], None],
    ) -> None:
        super().__init__(services, session, gate, coalescer, shared)
        self._closed = closed
        self._apis = apis
        self._delay = delay
        self._task: asyncio.Task[None] | None = None
        """The running handler, admission or thread; no later request starts before it ends."""
        self._starting = False
        """Set while ``_start_requests`` runs: a reply that completes inside it must not start
        it again."""
        self._resuming: asyncio.Handle | None = None
        self._sending: asyncio.Handle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._backlog.clear()
        if self._task is not None:
            self._task.cancel()
        self._closed(self)

    # Arrival.

    def _receive(self, frame: memoryview) -> bool:
        header = read_header(frame)
        api = self._apis.get(header.api_key)
        if api is None:
            self._refuse(f"API key {header.api_key} is not served")
            return False
        body = None
        if is_served(header.api_key, header.version):
            body = bytes(frame)
        elif header.api_key != ApiKey.API_VERSIONS:
            self._refuse(f"{api.name} version {header.version} is not served")
            return False
        if header.api_key == ApiKey.PRODUCE:
            self._produces = True
        self._backlog.add(PendingRequest(api, header, body, len(frame), self._active_at))
        return True

    def _awaits_flush(self) -> bool:
        if self._task is not None or not self._backlog.unanswered:
            return False
        newest = self._backlog.unanswered[-1]
        return newest.api.admit is not None and newest.reply is None

    # Order and admission.

    def _start_requests(self) -> None:
        """Start every waiting request that may start, for at most ``TURN_SECONDS`` at a time."""
        if self._starting:
            return
        self._starting = True
        backlog = self._backlog
        spent = 0.0
        try:
            while (
                backlog.waiting and self._task is None and self._writable and self._throttle is None
            ):
                request = backlog.waiting[0]
                if request.api.admit is None and backlog.unanswered:
                    break
                if request.api.admit is not None and not self._gate.admits(self):
                    break
                if spent >= TURN_SECONDS:
                    self._start_requests_soon()
                    break
                if refusal := self._session.refusal(request.size, self._loop.time()):
                    self._refuse(refusal)
                    break
                backlog.start_next()
                if self._is_parsed_in_thread(request):
                    parse = partial(_try_to_parse, request.body, request.header)
                    self._run_in_thread(request, parse, partial(self._start_parsed, request))
                else:
                    spent += self._start_timed(request)
        finally:
            self._starting = False
        if self._transport is not None and not self._reading:
            self._regulate_reading()
        if backlog.empty:
            self._report_drained()
            if self._ending:
                self._close()

    @staticmethod
    def _is_parsed_in_thread(request: PendingRequest) -> bool:
        """Whether parsing could hold the loop. A Produce request is always parsed on the loop:
        its records are views of its frame, so its size does not matter.
        """
        return (
            needs_thread(request.size)
            and request.api.admit is None
            and isinstance(request.body, bytes)
        )

    def _start_requests_soon(self) -> None:
        if self._resuming is None:
            self._resuming = self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._resuming = None
        self._start_requests()

    # Dispatch.

    def _start_parsed(self, request: PendingRequest, parsed: Request | MalformedRequest) -> None:
        if self._set_parsed(request, parsed):
            self._start_timed(request)

    def _set_parsed(self, request: PendingRequest, parsed: Request | MalformedRequest) -> bool:
        """Replace the bytes of a request by its parsed form; False if it is malformed."""
        if isinstance(parsed, MalformedRequest):
            self._refuse(str(parsed))
            return False
        request.set_parsed(parsed)
        return True

    def _start_timed(self, request: PendingRequest) -> float:
        """Start a request, and return the seconds for which it blocked the loop."""
        began = perf_counter()
        body, header = request.body, request.header
        if not isinstance(body, bytes) or self._set_parsed(request, _try_to_parse(body, header)):
            self._start(request)
        seconds = perf_counter() - began
        self._charge(request, seconds)
        return seconds

    def _start(self, request: PendingRequest) -> None:
        api = request.api
        context = RequestContext(request.header.version, request.client_id, self._session)
        try:
            if api.operation is not None:
                api.authorize(self._services, request.body, context)
            if api.admit is not None:

                def done(reply: Reply | NoReply) -> None:
                    self._finish(request, reply)

                admission = api.admit(self._services, request.body, context, done)
                if admission is not None:
                    self._task = self._loop.create_task(self._wait_for(request, admission))
                else:
                    request.body = None  # the log has the records: free the frame
                return
            assert api.handle is not None
            outcome = api.handle(self._services, request.body, context)
            if isinstance(outcome, dict | EncodedReply):
                self._finish(request, outcome)
            else:
                self._task = self._loop.create_task(self._wait_for(request, outcome))
        except Exception as error:  # noqa: BLE001 - a handler that fails must still answer
            self._fail(request, error)

    async def _wait_for(self, request: PendingRequest, outcome: Awaitable[Reply | None]) -> None:
        """Start no later request until this one is answered or admitted."""
        try:
            reply = await TimedAwaitable(outcome, partial(self._charge, request))
        except Exception as error:  # noqa: BLE001 - a handler that fails must still answer
            self._task = None
            self._fail(request, error)
        else:
            self._task = None
            if reply is None:
                request.body = None
            else:
                self._finish(request, reply)
        self._start_requests()

    def _run_in_thread(
        self, request: PendingRequest, work: Callable[[], T], then: Callable[[T], None]
    ) -> None:
        """Run ``work`` in a thread, and ``then`` with its outcome before later requests start."""

        async def run() -> None:
            try:
                outcome = await self._loop.run_in_executor(self._services.executor, work)
            except Exception:
                log.exception("A request failed in a thread", extra=self._describe(request))
                self._task = None
                self._answer(request, NoReply.CLOSE)
                return
            self._task = None
            then(outcome)
            self._start_requests()

        self._task = self._loop.create_task(run())

    def _charge(self, request: PendingRequest, seconds: float) -> None:
        """Charge a request the time for which it ran on the loop."""
        if seconds >= SLOW_TURN_SECONDS:
            self._delay.report_slow_turn(request.api.name, self._session.peer, seconds)
        if self._quotas.timed:
            self._quotas.charge_time(request.client_id, seconds)

    def _describe(self, request: PendingRequest) -> dict[str, str]:
        """The fields of a log line about a request."""
        return {"api": request.api.name, "peer": self._session.peer}

    # Replies.

    def _fail(self, request: PendingRequest, error: Exception) -> None:
        if request.reply is not None:
            log.error(
                "A request failed after its reply", exc_info=error, extra=self._describe(request)
            )
            return
        if not isinstance(error, KafkaError | RequestSuperseded):
            log.error("A request failed", exc_info=error, extra=self._describe(request))
        if request.api.admit is None and request.size > _LARGE_FAILURE:
            refuse = partial(reply_to_failure, request.body, request.header, error)
            self._run_in_thread(request, refuse, partial(self._finish, request))
        else:
            self._finish(request, reply_to_failure(request.body, request.header, error))

    def _finish(self, request: PendingRequest, reply: Reply | NoReply) -> None:
        if self._transport is None or request.reply is not None:
            return
        wait = 0
        if self._quotas.active:
            wait = throttle_ms(
                self._quotas, request.header.api_key, request.client_id, request.size, reply
            )
            if wait:
                self._throttle_client(wait)
        if isinstance(reply, NoReply):
            self._answer(request, reply)
        elif request.api.admit is None and is_large(reply):
            encode = partial(self._encode, request, reply, wait)
            self._run_in_thread(request, encode, partial(self._answer, request))
        else:
            self._answer(request, self._encode(request, reply, wait))

    def _encode(self, request: PendingRequest, reply: Reply, wait: int) -> Segments | NoReply:
        api_key, version, correlation_id = request.header
        if api_key == ApiKey.API_VERSIONS and request.body is None:
            version = 0
        try:
            return encode_reply(api_key, version, correlation_id, reply, wait)
        except Exception:
            log.exception("Cannot encode a reply", extra=self._describe(request))
            return NoReply.CLOSE

    def _answer(self, request: PendingRequest, reply: Segments | NoReply) -> None:
        if self._transport is None:
            return
        request.reply = reply
        request.body = None
        if request.reply is NoReply.CLOSE:
            self._drop_waiting()
        if request.api.admit is None:
            self._send_ready()
        elif self._sending is None:
            # One commit completes many requests: their replies share one write.
            self._sending = self._loop.call_soon(self._send_ready)

    def _send_ready(self) -> None:
        """Write all replies up to the first request without one."""
        self._sending = None
        answered = list(self._backlog.pop_answered())
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
            self._coalescer.resume_reads(self._socket)
        if segments:
            self._transport.writelines(segments)
        if any(request.reply is NoReply.CLOSE for request in answered):
            self._refuse("a request failed and has no error reply")
        elif self._task is None:
            self._start_requests()


def _try_to_parse(frame: bytes, header: Header) -> Request | MalformedRequest:
    try:
        return parse_request(frame, header)
    except MalformedRequest as error:
        return error
