"""Connections and errors of the backends that speak gRPC (etcd and Oxia)."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc

from headwater.errors import StoreUnavailable, UnknownOutcome

Q = TypeVar("Q")
A = TypeVar("A")

Metadata = Sequence[tuple[str, str]]
"""The gRPC metadata of a call."""
Failure = Any
"""The error of a failed call on either kind of channel: it has ``details()`` and ``code()``."""

CLOSED = "the metadata store is closed"
OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Detects a server that is frozen or unreachable, even if no call is running. etcd closes
    # connections that send keepalives more often than every five seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
]

_NEVER_SENT = (
    "failed to connect to all addresses",
    "DNS resolution failed",
    "Name resolution failure",
    "empty address list",
)
"""How gRPC's error texts begin if no connection could be opened."""


@dataclass(frozen=True, slots=True)
class GrpcMethod(Generic[Q, A]):
    """A method of a server: its path, and the types of its request and answer."""

    path: str
    request: type[Q]
    answer: type[A]


class ServerChannel:
    """A channel to one server, and the callables for its methods."""

    def __init__(self, name: str, credentials: Any = None) -> None:
        self.name = name
        if credentials is None:
            self.channel = grpc.aio.insecure_channel(name, options=OPTIONS)
        else:
            self.channel = grpc.aio.secure_channel(name, credentials, options=OPTIONS)
        self._callables: dict[str, Any] = {}

    def unary(self, method: GrpcMethod[Q, A]) -> Any:
        return self._callable(method, self.channel.unary_unary)

    def answers(self, method: GrpcMethod[Q, A]) -> Any:
        """A callable that takes one request and returns a stream of answers."""
        return self._callable(method, self.channel.unary_stream)

    def stream(self, method: GrpcMethod[Q, A]) -> Any:
        return self._callable(method, self.channel.stream_stream)

    def _callable(self, method: GrpcMethod[Q, A], kind: Any) -> Any:
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


class BlockingChannel:
    """A channel for calls that block their thread; ``close`` ends the calls that are running."""

    def __init__(self, name: str, credentials: Any = None) -> None:
        self.name = name
        self._channel: Any = (
            grpc.insecure_channel(name, options=OPTIONS)
            if credentials is None
            else grpc.secure_channel(name, credentials, options=OPTIONS)
        )

    def call(
        self, method: GrpcMethod[Q, A], request: Q, *, within: float, metadata: Metadata = ()
    ) -> A:
        """The answer; raises ``grpc.RpcError``, and ``StoreUnavailable`` after ``close``."""
        invoke = self._prepared(self._channel.unary_unary, method)
        with _open_channel():
            answer: A = invoke(request, timeout=within, metadata=metadata)
            return answer

    def first_answer(
        self, method: GrpcMethod[Q, A], request: Q, *, within: float, metadata: Metadata = ()
    ) -> A | None:
        """The first answer of a streaming method, None without one. Raises as ``call`` does."""
        invoke = self._prepared(self._channel.unary_stream, method)
        with _open_channel():
            answers = invoke(request, timeout=within, metadata=metadata)
            try:
                answer: A | None = next(answers, None)
            finally:
                answers.cancel()
            return answer

    def close(self) -> None:
        self._channel.close()

    @staticmethod
    def _prepared(kind: Any, method: GrpcMethod[Q, A]) -> Any:
        made: Any = method.request
        read: Any = method.answer
        return kind(
            method.path,
            request_serializer=made.SerializeToString,
            response_deserializer=read.FromString,
        )


@contextmanager
def _open_channel() -> Iterator[None]:
    try:
        yield
    except ValueError as error:  # gRPC raises this if the channel is closed
        raise StoreUnavailable(CLOSED) from error


def never_sent(error: Failure) -> bool:
    """True if the request was certainly not sent; with any other error it may have been."""
    text = error.details() or ""
    return error.code() is grpc.StatusCode.UNAVAILABLE and text.startswith(_NEVER_SENT)


def raise_if_closed(error: BaseException, *, closed: bool, writes: bool = False) -> None:
    """Raise a ``StoreError`` if a call was cancelled because its channel was closed."""
    task = asyncio.current_task()
    if closed and (task is None or not task.cancelling()):
        raise (UnknownOutcome if writes else StoreUnavailable)(CLOSED) from error
