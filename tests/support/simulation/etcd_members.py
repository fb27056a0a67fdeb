"""etcd in memory: transactions with comparisons, all or nothing, one revision each."""

from typing import Any

from headwater.meta.etcd.members import EtcdMembers
from headwater.meta.etcd.methods import RANGE, TXN
from headwater.meta.etcd.rpc import etcd_pb2 as pb
from tests.support.simulation.network import Network


class EtcdState:
    """What the members hold, and every transaction's changes in order."""

    def __init__(self) -> None:
        self._stored: dict[bytes, pb.KeyValue] = {}
        self._revision = 1
        self.history: list[tuple[int, dict[bytes, bytes | None]]] = []

    def range(self, wanted: pb.RangeRequest) -> pb.RangeResponse:
        found = self._in_range(wanted.key, wanted.range_end)
        limit = wanted.limit or len(found)
        answer = pb.RangeResponse(kvs=found[:limit], more=len(found) > limit)
        answer.header.revision = self._revision
        return answer

    def transact(self, request: pb.TxnRequest) -> pb.TxnResponse:
        succeeded = all(map(self._holds, request.compare))
        changes: dict[bytes, bytes | None] = {}
        answer = pb.TxnResponse(succeeded=succeeded)
        for operation in request.success if succeeded else request.failure:
            response = answer.responses.add()
            match operation.WhichOneof("request"):
                case "request_range":
                    response.response_range.CopyFrom(self.range(operation.request_range))
                case "request_put":
                    put = operation.request_put
                    changes[put.key] = put.value
                    response.response_put.SetInParent()
                case "request_delete_range":
                    gone = operation.request_delete_range
                    for each in self._in_range(gone.key, gone.range_end):
                        changes[each.key] = None
                    response.response_delete_range.SetInParent()
        if changes:
            self._apply(changes)
        answer.header.revision = self._revision
        return answer

    def _apply(self, changes: dict[bytes, bytes | None]) -> None:
        self._revision += 1
        self.history.append((self._revision, changes))
        for key, value in changes.items():
            if value is None:
                self._stored.pop(key, None)
                continue
            before = self._stored.get(key)
            self._stored[key] = pb.KeyValue(
                key=key,
                value=value,
                mod_revision=self._revision,
                create_revision=before.create_revision if before else self._revision,
                version=before.version + 1 if before else 1,
            )

    def _holds(self, compare: pb.Compare) -> bool:
        stored = self._stored.get(compare.key, pb.KeyValue())
        if compare.target == pb.Compare.MOD:
            return bool(stored.mod_revision == compare.mod_revision)
        assert compare.target == pb.Compare.VERSION
        return bool(stored.version == compare.version)

    def _in_range(self, first: bytes, after: bytes) -> list[pb.KeyValue]:
        if not after:
            return [self._stored[first]] if first in self._stored else []
        return [self._stored[key] for key in sorted(self._stored) if first <= key < after]


class SimulatedMembers(EtcdMembers):
    """One client's calls to the cluster."""

    def __init__(self, state: EtcdState, network: Network) -> None:
        self._state = state
        self._network = network
        self.closed = False

    async def read(self, method: Any, request: Any) -> Any:
        return await self._network.call(lambda: self._serve(method, request))

    async def write(self, method: Any, request: Any) -> Any:
        return await self._network.call(lambda: self._serve(method, request), writes=True)

    def _serve(self, method: Any, request: Any) -> Any:
        if method is RANGE:
            return self._state.range(request)
        assert method is TXN
        return self._state.transact(request)

    async def close(self) -> None:
        self.closed = True
