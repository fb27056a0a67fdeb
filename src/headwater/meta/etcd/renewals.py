"""Renews etcd's leases by blocking calls on a separate thread.

These calls use their own channels, so that they get their answers while the main event loop is
blocked. ``KeepAlive`` streams in both directions; one request and one answer are enough.
"""

import grpc

from headwater.errors import SessionLost, StoreUnavailable
from headwater.meta.etcd.address import EtcdAddress
from headwater.meta.etcd.failures import read_error, token_expired
from headwater.meta.etcd.leases import session_name
from headwater.meta.etcd.members import REQUIRE_LEADER, channel_credentials
from headwater.meta.etcd.methods import AUTHENTICATE, LEASE_KEEP_ALIVE
from headwater.meta.etcd.rpc import etcd_pb2 as pb
from headwater.meta.grpc_channels import CLOSED, BlockingChannel, Metadata


class EtcdRenewals:
    """Renews leases at one member until it fails, then at the next one."""

    def __init__(self, address: EtcdAddress) -> None:
        self._address = address
        self._peers: list[BlockingChannel] = []
        self._current = 0
        self._token: str | None = None
        self._closed = False

    def keep_alive(self, lease: int, *, within: float) -> None:
        """Renew a lease once; raises ``SessionLost`` if it has expired."""
        peer = self._peer()
        request = pb.LeaseKeepAliveRequest(ID=lease)
        try:
            metadata = self._metadata(peer, within)
            answer = peer.first_answer(LEASE_KEEP_ALIVE, request, within=within, metadata=metadata)
        except grpc.RpcError as error:
            if token_expired(error):
                self._token = None
            else:
                self._switch_member()
            raise read_error(peer.name, error) from error
        if answer is None:
            self._switch_member()
            raise StoreUnavailable(
                f"etcd at {peer.name} closed the renewal stream without an answer"
            )
        if answer.TTL <= 0:
            raise SessionLost(f"session {session_name(lease)} has ended")

    def close(self) -> None:
        """End running calls with an error; may be called from any thread."""
        self._closed = True
        for peer in self._peers:
            peer.close()

    def _peer(self) -> BlockingChannel:
        if self._closed:
            raise StoreUnavailable(CLOSED)
        if not self._peers:
            credentials = channel_credentials(self._address)
            self._peers = [BlockingChannel(name, credentials) for name in self._address.members]
        return self._peers[self._current]

    def _switch_member(self) -> None:
        self._current = (self._current + 1) % len(self._peers)

    def _metadata(self, peer: BlockingChannel, within: float) -> Metadata:
        if self._address.user is None:
            return [REQUIRE_LEADER]
        if self._token is None:
            request = pb.AuthenticateRequest(
                name=self._address.user, password=self._address.password
            )
            self._token = peer.call(AUTHENTICATE, request, within=within).token
        return [REQUIRE_LEADER, ("token", self._token)]
