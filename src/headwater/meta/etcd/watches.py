"""Ordered changes under a prefix, across reconnects.

A watch remembers the last revision that it has received completely, and requests the following
ones after each reconnect. etcd sends whole revisions; a large answer comes in fragments, which are
joined first. While nothing changes, the watch asks etcd every ``PROGRESS_SECONDS`` for the current
revision, so that a reconnect after a quiet hour does not request compacted revisions.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from random import Random
from typing import Any

import grpc

from headwater.errors import StoreUnavailable, WatchTrimmed
from headwater.meta.etcd.failures import token_expired
from headwater.meta.etcd.members import EtcdMembers
from headwater.meta.etcd.methods import WATCH
from headwater.meta.etcd.rpc import etcd_pb2 as pb
from headwater.meta.etcd.transactions import EtcdKeyspace
from headwater.meta.grpc_channels import CLOSED, ServerChannel, raise_if_closed
from headwater.meta.store import KeyChange
from headwater.retry import Backoff

log = logging.getLogger(__name__)

PROGRESS_SECONDS = 15.0
RECONNECT = Backoff(first=0.05, longest=1.0)


class _Ended(Exception):
    """Raised when the stream has ended; the text says why."""


class EtcdWatch:
    """A watch of a prefix, for the changes after a revision."""

    def __init__(
        self, members: EtcdMembers, keys: EtcdKeyspace, prefix: str, after: int, random: Random
    ) -> None:
        self._members = members
        self._keys = keys
        self._prefix = prefix
        self._after = after
        self._random = random
        self._pauses: Iterator[float] | None = None
        """Seconds to wait before the next reconnects; None while a connection works."""

    async def changes(self) -> AsyncIterator[list[KeyChange]]:
        """Every change, revisions never split; raises ``WatchTrimmed``."""
        while True:
            member = self._members.current
            try:
                async with contextlib.aclosing(self._stream(member)) as stream:
                    async for changes in stream:
                        yield changes
            except _Ended as ended:
                if self._members.closed:
                    raise StoreUnavailable(CLOSED) from ended
                # Every watch logs this, so only the first failure of an outage is at INFO.
                level = logging.INFO if self._pauses is None else logging.DEBUG
                log.log(
                    level,
                    "Watch of etcd ended; reconnecting",
                    extra={"prefix": self._prefix, "after": self._after, "error": ended},
                )
            self._members.switch_from(member)
            if self._pauses is None:
                self._pauses = RECONNECT.pauses(self._random)
            await asyncio.sleep(next(self._pauses))

    async def _stream(self, member: ServerChannel) -> AsyncGenerator[list[KeyChange], None]:
        """The changes that one connection delivers, until it ends."""
        try:
            call = member.stream(WATCH)(metadata=await self._members.metadata(member))
            start, end = self._keys.prefix(self._prefix)
            request = pb.WatchCreateRequest(
                key=start,
                range_end=end,
                start_revision=self._after + 1,
                progress_notify=True,
                fragment=True,
            )
            try:
                await call.write(pb.WatchRequest(create_request=request))
                async with _requesting_progress(call):
                    async for changes in self._answers(call):
                        yield changes
            finally:
                call.cancel()
        except grpc.aio.AioRpcError as error:
            if token_expired(error):
                self._members.forget_token()
            raise _Ended(error.details() or error.code().name) from error
        except grpc.aio.UsageError as error:
            raise StoreUnavailable(CLOSED) from error
        except asyncio.CancelledError as error:
            raise_if_closed(error, closed=self._members.closed)
            raise

    async def _answers(self, call: Any) -> AsyncIterator[list[KeyChange]]:
        changes: list[KeyChange] = []
        while True:
            answer = await call.read()
            if answer is grpc.aio.EOF:
                raise _Ended("the member ended it")
            if answer.compact_revision:
                raise WatchTrimmed(
                    f"the changes after revision {self._after} were compacted "
                    f"up to revision {answer.compact_revision}"
                )
            if answer.canceled:
                raise _Ended(answer.cancel_reason or "the member cancelled it")
            self._pauses = None
            changes.extend(map(self._change, answer.events))
            if answer.fragment:
                continue
            if changes:
                self._after = changes[-1].revision
                yield changes
                changes = []
            elif not answer.created:
                self._after = max(self._after, answer.header.revision)

    def _change(self, event: pb.Event) -> KeyChange:
        stored = event.kv
        value = stored.value if event.type == pb.Event.PUT else None
        return KeyChange(self._keys.name(stored.key), value, stored.mod_revision)


@contextlib.asynccontextmanager
async def _requesting_progress(call: Any) -> AsyncIterator[None]:
    async def ask() -> None:
        request = pb.WatchRequest(progress_request=pb.WatchProgressRequest())
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                await asyncio.sleep(PROGRESS_SECONDS)
                await call.write(request)

    asking = asyncio.create_task(ask())
    try:
        yield
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
