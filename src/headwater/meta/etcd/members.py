"""Calls to whichever member of the cluster answers.

One member is used until it fails; then the next one is, in turn. A read goes round all of them
before it fails. A write goes on to the next member only where the last one certainly did not
take it.
"""

import asyncio
from typing import Any

import grpc

from headwater.errors import StoreUnavailable, UnknownOutcome
from headwater.meta.etcd.address import Address, Tls
from headwater.meta.etcd.failures import passed_over, read_error, token_expired, write_error
from headwater.meta.etcd.methods import AUTHENTICATE, A, Method, Q
from headwater.meta.etcd.rpc import etcd_pb2 as pb

CALL_SECONDS = 5.0
OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A member that is frozen or cut off is noticed, whatever waits for it. etcd closes
    # connections that ask more often than every five seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
]
REQUIRE_LEADER = ("hasleader", "true")
"""A member without a leader then refuses at once, and ends watches."""


class Member:
    """A channel to one member, and the callables made for it."""

    def __init__(self, name: str, tls: Tls | None) -> None:
        self.name = name
        if tls is None:
            self.channel = grpc.aio.insecure_channel(name, options=OPTIONS)
        else:
            credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.cert)
            self.channel = grpc.aio.secure_channel(name, credentials, options=OPTIONS)
        self._callables: dict[str, Any] = {}

    def unary(self, method: Method[Q, A]) -> Any:
        return self._callable(method, self.channel.unary_unary)

    def stream(self, method: Method[Q, A]) -> Any:
        return self._callable(method, self.channel.stream_stream)

    def _callable(self, method: Method[Q, A], kind: Any) -> Any:
        made = self._callables.get(method.path)
        if made is None:
            request: Any = method.request
            answer: Any = method.answer
            made = kind(
                method.path,
                request_serializer=request.SerializeToString,
                response_deserializer=answer.FromString,
            )
            self._callables[method.path] = made
        return made


class Members:
    """The cluster's members as one."""

    def __init__(self, address: Address) -> None:
        self._members = [Member(name, address.tls) for name in address.members]
        self._current = 0
        self._user = address.user
        self._password = address.password
        self._token: str | None = None
        self.closed = False

    @property
    def current(self) -> Member:
        """The member in use."""
        return self._members[self._current]

    def leave(self, member: Member) -> None:
        """Use another member from here on, unless that has happened already."""
        if member is self.current:
            self._current = (self._current + 1) % len(self._members)

    async def read(self, method: Method[Q, A], request: Q) -> A:
        """Call what may be repeated; ``StoreUnavailable`` where no member answers."""
        for left in reversed(range(len(self._members))):
            member = self.current
            try:
                return await self._call(member, method, request)
            except grpc.aio.AioRpcError as error:
                self.leave(member)
                if left == 0:
                    raise read_error(member.name, error) from error
        raise AssertionError("unreachable")

    async def write(self, method: Method[Q, A], request: Q) -> A:
        """Call what may be applied once only; see ``failures`` for how it fails."""
        for left in reversed(range(len(self._members))):
            member = self.current
            try:
                return await self._call(member, method, request, writes=True)
            except grpc.aio.AioRpcError as error:
                failure = write_error(member.name, error)
                if isinstance(failure, StoreUnavailable | UnknownOutcome):
                    self.leave(member)
                if left == 0 or not passed_over(error):
                    raise failure from error
        raise AssertionError("unreachable")

    async def metadata(self, member: Member) -> list[tuple[str, str]]:
        """What goes with every call."""
        if self._user is None:
            return [REQUIRE_LEADER]
        if self._token is None:
            request = pb.AuthenticateRequest(name=self._user, password=self._password)
            answer = await member.unary(AUTHENTICATE)(request, timeout=CALL_SECONDS)
            self._token = answer.token
        return [REQUIRE_LEADER, ("token", self._token)]

    def forget_token(self) -> None:
        """Ask for a new token with the next call."""
        self._token = None

    async def close(self) -> None:
        """End every call with an error."""
        self.closed = True
        for member in self._members:
            await member.channel.close()

    async def _call(
        self, member: Member, method: Method[Q, A], request: Q, *, writes: bool = False
    ) -> A:
        try:
            return await self._call_with_token(member, method, request)
        except grpc.aio.UsageError as error:
            raise StoreUnavailable("the metadata store is closed") from error
        except asyncio.CancelledError as error:
            self.raise_if_closed(error, writes=writes)
            raise

    async def _call_with_token(self, member: Member, method: Method[Q, A], request: Q) -> A:
        call = member.unary(method)
        try:
            metadata = await self.metadata(member)
            answer: A = await call(request, timeout=CALL_SECONDS, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            if self._user is None or not token_expired(error):
                raise
            self.forget_token()
            metadata = await self.metadata(member)
            answer = await call(request, timeout=CALL_SECONDS, metadata=metadata)
        return answer

    def raise_if_closed(self, error: BaseException, *, writes: bool = False) -> None:
        """A channel that closes cancels its calls: to their callers that is an error."""
        task = asyncio.current_task()
        if self.closed and (task is None or not task.cancelling()):
            closed = "the metadata store is closed"
            raise (UnknownOutcome if writes else StoreUnavailable)(closed) from error
