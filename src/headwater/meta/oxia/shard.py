"""Calls to the leader of the Oxia shard that holds a store.

Every server of the cluster streams which server leads which shard. All keys of a store have its
prefix as their partition key, so that they are in one shard, where Oxia's own tools find them.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
import xxhash

from headwater.errors import StoreUnavailable
from headwater.meta.grpc_channels import CLOSED, A, GrpcMethod, Q, ServerChannel, raise_if_closed
from headwater.meta.oxia.address import OxiaAddress
from headwater.meta.oxia.failures import read_error, write_error
from headwater.meta.oxia.methods import ASSIGNMENTS, NOTIFICATIONS, RANGE_SCAN, READ, WRITE
from headwater.meta.oxia.rpc import oxia_pb2 as pb

log = logging.getLogger(__name__)

CALL_SECONDS = 5.0
ANSWER_SECONDS = 20.0
"""Timeout for each answer of a range scan."""
RETRY_SECONDS = 0.2


class OxiaShard:
    """The shard of a store. Keep ``run`` in a task: it follows which server leads the shard."""

    def __init__(self, address: OxiaAddress) -> None:
        self._servers = address.servers
        self._namespace = address.namespace
        self._hash = xxhash.xxh3_64_intdigest(address.prefix.encode()) & 0xFFFFFFFF
        self._peers: dict[str, ServerChannel] = {}
        self._leader: str | None = None
        self._found = asyncio.Event()
        self._failure = "no Oxia server has answered yet"
        self._closed = False
        self.number = -1

    async def run(self) -> None:
        """Follow the shard assignments, at one server after another, until cancelled."""
        while True:
            for server in self._servers:
                try:
                    await self._follow(server)
                except grpc.aio.AioRpcError as error:
                    self._failure = f"Oxia at {server}: {error.details() or error.code().name}"
                    log.debug(
                        "Could not find the leader of the shard", extra={"error": self._failure}
                    )
                await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self, server: str) -> None:
        request = pb.ShardAssignmentsRequest(namespace=self._namespace)
        async for answer in self._peer(server).answers(ASSIGNMENTS)(request):
            for assigned in answer.namespaces[self._namespace].assignments:
                bounds = assigned.int32_hash_range
                if bounds.min_hash_inclusive <= self._hash <= bounds.max_hash_inclusive:
                    self.number = assigned.shard
                    self._leader = assigned.leader
                    self._found.set()

    async def wait_found(self) -> None:
        """Wait until the leader is known; raises ``StoreUnavailable`` if no server answers."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._found.wait()
        except TimeoutError as error:
            raise StoreUnavailable(self._failure) from error

    async def read(self, gets: Sequence[pb.GetRequest]) -> list[pb.GetResponse]:
        """Read keys and return the answers in order; the reads are not one snapshot."""
        request = pb.ReadRequest(shard=self.number, gets=gets)
        peer = self._current()
        found: list[pb.GetResponse] = []
        with self._translated(peer):
            async for answer in peer.answers(READ)(request, timeout=CALL_SECONDS):
                found.extend(answer.gets)
        return found

    async def scan(self, start: str, end: str) -> AsyncIterator[pb.GetResponse]:
        """The records of a range in order, from one snapshot.

        The timeout applies to each answer, so that a long range may take any time.
        """
        request = pb.RangeScanRequest(shard=self.number, start_inclusive=start, end_exclusive=end)
        peer = self._current()
        with self._translated(peer):
            call = peer.answers(RANGE_SCAN)(request)
            try:
                while (answer := await self._next(call, peer)) is not grpc.aio.EOF:
                    for record in answer.records:
                        yield record
            finally:
                call.cancel()

    async def _next(self, call: Any, peer: ServerChannel) -> Any:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await call.read()
        except TimeoutError as error:
            raise StoreUnavailable(
                f"Oxia at {peer.name} sent no part of a range scan for {ANSWER_SECONDS:g} s"
            ) from error

    async def write(self, request: pb.WriteRequest) -> pb.WriteResponse:
        """Write one batch; each operation has its own condition."""
        request.shard = self.number
        answer: pb.WriteResponse = await self.call(WRITE, request, writes=True)
        return answer

    async def call(self, method: GrpcMethod[Q, A], request: Q, *, writes: bool = False) -> A:
        peer = self._current()
        with self._translated(peer, writes=writes):
            answer: A = await peer.unary(method)(request, timeout=CALL_SECONDS)
            return answer

    async def notifications(self) -> AsyncIterator[pb.NotificationBatch]:
        """The changes in the shard from now on; the first batch is empty and marks the start."""
        peer = self._current()
        with self._translated(peer):
            call = peer.answers(NOTIFICATIONS)(pb.NotificationsRequest(shard=self.number))
            try:
                async for batch in call:
                    yield batch
            finally:
                call.cancel()

    async def close(self) -> None:
        """Close all channels; running calls fail."""
        self._closed = True
        for peer in self._peers.values():
            await peer.channel.close()

    @property
    def leader(self) -> str:
        """The server that leads the shard; raises ``StoreUnavailable`` if it is not known."""
        if self._leader is None:
            raise StoreUnavailable(self._failure)
        return self._leader

    def _current(self) -> ServerChannel:
        if self._closed:
            raise StoreUnavailable(CLOSED)
        return self._peer(self.leader)

    def _peer(self, server: str) -> ServerChannel:
        peer = self._peers.get(server)
        if peer is None:
            peer = self._peers[server] = ServerChannel(server)
        return peer

    @contextmanager
    def _translated(self, peer: ServerChannel, *, writes: bool = False) -> Iterator[None]:
        try:
            yield
        except grpc.aio.AioRpcError as error:
            translate = write_error if writes else read_error
            raise translate(peer.name, error) from error
        except grpc.aio.UsageError as error:
            raise StoreUnavailable(CLOSED) from error
        except asyncio.CancelledError as error:
            raise_if_closed(error, closed=self._closed, writes=writes)
            raise
