"""A shard of Oxia in memory: batches of writes, each operation on its own condition."""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence

from headwater.meta.oxia.keyspace import ABSENT
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.oxia.shard import OxiaShard
from tests.support.simulation.network import Network


class ShardState:
    """What the servers hold. Versions are offsets of the shard's log: none is used twice."""

    def __init__(self) -> None:
        self.written: list[tuple[str, bytes]] = []
        """Every put that succeeded, in order."""
        self._records: dict[str, tuple[bytes, pb.Version]] = {}
        self._versions = 0

    def get(self, wanted: pb.GetRequest) -> pb.GetResponse:
        key = wanted.key
        if wanted.comparison_type == pb.FLOOR:
            ordered = sorted(self._records)
            at = bisect_right(ordered, key)
            key = ordered[at - 1] if at else ""
        if key not in self._records:
            return pb.GetResponse(status=pb.KEY_NOT_FOUND)
        value, version = self._records[key]
        return pb.GetResponse(status=pb.OK, key=key, value=value, version=version)

    def scan(self, start: str, end: str) -> list[pb.GetResponse]:
        return [
            self.get(pb.GetRequest(key=key)) for key in sorted(self._records) if start <= key < end
        ]

    def write(self, request: pb.WriteRequest, now_ms: int) -> pb.WriteResponse:
        """One batch; an operation that fails stops none of the others."""
        answer = pb.WriteResponse()
        self._versions += 1
        for put in request.puts:
            if put.expected_version_id != self._version(put.key):
                answer.puts.add(status=pb.UNEXPECTED_VERSION_ID)
                continue
            version = pb.Version(version_id=self._versions, modified_timestamp=now_ms)
            self._records[put.key] = put.value, version
            self.written.append((put.key, put.value))
            answer.puts.add(status=pb.OK, version=version)
        for delete in request.deletes:
            if delete.expected_version_id != self._version(delete.key):
                answer.deletes.add(status=pb.UNEXPECTED_VERSION_ID)
                continue
            del self._records[delete.key]
            answer.deletes.add(status=pb.OK)
        for gone in request.delete_ranges:
            for found in self.scan(gone.start_inclusive, gone.end_exclusive):
                del self._records[found.key]
        return answer

    def _version(self, key: str) -> int:
        return self._records[key][1].version_id if key in self._records else ABSENT


class SimulatedShard(OxiaShard):
    """One client's calls to the shard."""

    def __init__(self, state: ShardState, network: Network) -> None:
        self._state = state
        self._network = network
        self.number = 0

    async def read(self, gets: Sequence[pb.GetRequest]) -> list[pb.GetResponse]:
        """Each key as it is when its turn comes: between two of them others may write."""
        await self._network.call(lambda: None)
        found = []
        for get in gets:
            found.append(self._state.get(get))
            await self._network.pause()
        return found

    async def scan(self, start: str, end: str) -> AsyncIterator[pb.GetResponse]:
        for found in await self._network.call(lambda: self._state.scan(start, end)):
            yield found

    async def write(self, request: pb.WriteRequest) -> pb.WriteResponse:
        loop, sent = asyncio.get_running_loop(), pb.WriteRequest()
        sent.CopyFrom(request)
        return await self._network.call(
            lambda: self._state.write(sent, int(loop.time() * 1000)), writes=True
        )
