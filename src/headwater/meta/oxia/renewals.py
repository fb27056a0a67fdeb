"""Renewals of Oxia's sessions, by calls that block a thread of their own.

The channels are not those of the store: a call on these is answered while the main event loop is
held. They go to the leader that the store last heard of, on the main loop.
"""

import grpc

from headwater.errors import SessionLost, StoreUnavailable
from headwater.meta.grpc_channels import CLOSED, BlockingChannel
from headwater.meta.oxia.failures import NO_SESSION, read_error
from headwater.meta.oxia.keyspace import OxiaKeyspace
from headwater.meta.oxia.methods import KEEP_ALIVE, WRITE
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.oxia.shard import OxiaShard


def session_record(layout: OxiaKeyspace, name: str, number: int) -> pb.PutRequest:
    """Writes the record that says that a session lives."""
    return pb.PutRequest(
        key=layout.session(name),
        session_id=number,
        client_identity=name,
        partition_key=layout.partition,
    )


class OxiaRenewals:
    """The renewals of one store's sessions."""

    def __init__(self, shard: OxiaShard, layout: OxiaKeyspace) -> None:
        self._shard = shard
        self._layout = layout
        self._peer: BlockingChannel | None = None
        self._closed = False

    def renew(self, name: str, number: int, *, within: float) -> None:
        """``SessionLost`` where Oxia has ended the session.

        A server that was deposed and does not know it goes on to take heartbeats, which it keeps
        to itself; a record it cannot write.
        """
        shard = self._shard.number
        peer = self._leader()
        record = session_record(self._layout, name, number)
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
        """End the calls under way with an error, from any thread."""
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
