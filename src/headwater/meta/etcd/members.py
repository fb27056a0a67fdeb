"""Calls to whichever member of the cluster answers.

One member is used until it fails; then the next one is, in turn. A read goes round all of them
before it fails. A write goes on to the next member only where the last one certainly did not
take it.
"""

import asyncio

import grpc

from headwater.errors import StoreUnavailable, UnknownOutcome
from headwater.meta.channels import CLOSED, A, Method, Peer, Q, raise_if_closed
from headwater.meta.etcd.address import Address
from headwater.meta.etcd.failures import passed_over, read_error, token_expired, write_error
from headwater.meta.etcd.methods import AUTHENTICATE
from headwater.meta.etcd.rpc import etcd_pb2 as pb

CALL_SECONDS = 5.0
REQUIRE_LEADER = ("hasleader", "true")
"""A member without a leader then refuses at once, and ends watches."""


def channel_credentials(address: Address) -> grpc.ChannelCredentials | None:
    """What every channel to the cluster is made with."""
    tls = address.tls
    return tls and grpc.ssl_channel_credentials(tls.ca, tls.key, tls.cert)


class Members:
    """The cluster's members as one."""

    def __init__(self, address: Address) -> None:
        credentials = channel_credentials(address)
        self._members = [Peer(name, credentials) for name in address.members]
        self._current = 0
        self._user = address.user
        self._password = address.password
        self._token: str | None = None
        self.closed = False

    @property
    def current(self) -> Peer:
        """The member in use."""
        return self._members[self._current]

    def leave(self, member: Peer) -> None:
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

    async def metadata(self, member: Peer) -> list[tuple[str, str]]:
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
        self, member: Peer, method: Method[Q, A], request: Q, *, writes: bool = False
    ) -> A:
        try:
            return await self._call_with_token(member, method, request)
        except grpc.aio.UsageError as error:
            raise StoreUnavailable(CLOSED) from error
        except asyncio.CancelledError as error:
            raise_if_closed(error, closed=self.closed, writes=writes)
            raise

    async def _call_with_token(self, member: Peer, method: Method[Q, A], request: Q) -> A:
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
