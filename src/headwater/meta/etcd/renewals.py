"""Renewals of etcd's leases, by calls that block a thread of their own.

The channels are not those of the store: a call on these is answered while the main event loop is
held. ``KeepAlive`` streams both ways; one request and the end of the stream are enough.
"""

import grpc

from headwater.errors import SessionLost, StoreUnavailable
from headwater.meta.channels import CLOSED, BlockingPeer, Metadata
from headwater.meta.etcd.address import Address
from headwater.meta.etcd.failures import read_error, token_expired
from headwater.meta.etcd.leases import session_name
from headwater.meta.etcd.members import REQUIRE_LEADER, channel_credentials
from headwater.meta.etcd.methods import AUTHENTICATE, LEASE_KEEP_ALIVE
from headwater.meta.etcd.rpc import etcd_pb2 as pb


class Renewals:
    """One member is used until it fails; then the next one is, in turn."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._peers: list[BlockingPeer] = []
        self._current = 0
        self._token: str | None = None
        self._closed = False

    def keep_alive(self, lease: int, *, within: float) -> None:
        """Renew a lease once; ``SessionLost`` where etcd has ended it."""
        peer = self._peer()
        request = pb.LeaseKeepAliveRequest(ID=lease)
        try:
            metadata = self._metadata(peer, within)
            answer = peer.first_answer(LEASE_KEEP_ALIVE, request, within=within, metadata=metadata)
        except grpc.RpcError as error:
            if token_expired(error):
                self._token = None
            else:
                self._leave()
            raise read_error(peer.name, error) from error
        if answer is None:
            self._leave()
            raise StoreUnavailable(f"etcd at {peer.name} ended a renewal without an answer")
        if answer.TTL <= 0:
            raise SessionLost(f"session {session_name(lease)} has ended")

    def close(self) -> None:
        """End the calls under way with an error, from any thread."""
        self._closed = True
        for peer in self._peers:
            peer.close()

    def _peer(self) -> BlockingPeer:
        if self._closed:
            raise StoreUnavailable(CLOSED)
        if not self._peers:
            credentials = channel_credentials(self._address)
            self._peers = [BlockingPeer(name, credentials) for name in self._address.members]
        return self._peers[self._current]

    def _leave(self) -> None:
        self._current = (self._current + 1) % len(self._peers)

    def _metadata(self, peer: BlockingPeer, within: float) -> Metadata:
        if self._address.user is None:
            return [REQUIRE_LEADER]
        if self._token is None:
            request = pb.AuthenticateRequest(
                name=self._address.user, password=self._address.password
            )
            self._token = peer.call(AUTHENTICATE, request, within=within).token
        return [REQUIRE_LEADER, ("token", self._token)]
