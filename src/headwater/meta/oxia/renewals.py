"""Renews Oxia's sessions by blocking calls on a separate thread.

These calls use their own channels, so that they get their answers while the main event loop is
blocked. They go to the leader that ``OxiaShard`` last found.
"""

import grpc

from headwater.errors import SessionLost, StoreUnavailable
from headwater.meta.grpc_channels import CLOSED, BlockingChannel
from headwater.meta.oxia.failures import NO_SESSION, read_error
from headwater.meta.oxia.keyspace import OxiaKeyspace
from headwater.meta.oxia.methods import KEEP_ALIVE, WRITE
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.oxia.shard import OxiaShard


def session_record(keyspace: OxiaKeyspace, name: str, number: int) -> pb.PutRequest:
    """A put of the ephemeral record of a session."""
    return pb.PutRequest(
        key=keyspace.session(name),
        session_id=number,
        client_identity=name,
        partition_key=keyspace.partition,
    )


class OxiaRenewals:
    """The renewals of one store's sessions."""

    def __init__(self, shard: OxiaShard, keyspace: OxiaKeyspace) -> None:
        self._shard = shard
        self._keyspace = keyspace
        self._peer: BlockingChannel | None = None
        self._closed = False

    def renew(self, name: str, number: int, *, within: float) -> None:
        """Renew a session once; raises ``SessionLost`` if it has expired.

        The record is written because a deposed leader still accepts heartbeats, which have no
        effect, but cannot write a record.
        """
        shard = self._shard.number
        peer = self._leader()
        record = session_record(self._keyspace, name, number)
        try:
            written = peer.call(WRITE, pb.WriteRequest(shard=shard, puts=[record]), within=within)
            if written.puts[0].status != pb.OK:
                raise SessionLost("the session has ended")
            heartbeat = pb.SessionHeartbeat(shard=shard, session_id=number)
            peer.call(KEEP_ALIVE, heartbeat, within=within)
        except grpc.RpcError as error:
            failure = read_error(peer.name, error)
            if str(failure).endswith(NO_SESSION):
                raise SessionLost("the session has ended") from error
            raise failure from error

    def close(self) -> None:
        """End running calls with an error; may be called from any thread."""
        self._closed = True
        if self._peer is not None:
            self._peer.close()

    def _leader(self) -> BlockingChannel:
        if self._closed:
            raise StoreUnavailable(CLOSED)
        name = self._shard.leader
        if self._peer is None or self._peer.name != name:
            if self._peer is not None:
                self._peer.close()
            self._peer = BlockingChannel(name)
        return self._peer
