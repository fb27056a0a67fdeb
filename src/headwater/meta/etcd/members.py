"""Calls to any member of the cluster that answers.

One member is used until it fails, then the next one. A read tries every member before it fails.
A write is sent to the next member only if the previous one certainly did not accept it.
"""

import asyncio

import grpc

from headwater.errors import StoreUnavailable, UnknownOutcome
from headwater.meta.etcd.address import EtcdAddress
from headwater.meta.etcd.failures import certainly_not_taken, read_error, token_expired, write_error
from headwater.meta.etcd.methods import AUTHENTICATE
from headwater.meta.etcd.rpc import etcd_pb2 as pb
from headwater.meta.grpc_channels import CLOSED, A, GrpcMethod, Q, ServerChannel, raise_if_closed

CALL_SECONDS = 5.0
REQUIRE_LEADER = ("hasleader", "true")
"""With this metadata, a member that has no leader refuses calls at once and ends watches."""


def channel_credentials(address: EtcdAddress) -> grpc.ChannelCredentials | None:
    """The TLS credentials of every channel to the cluster; None without TLS."""
    tls = address.tls
    return tls and grpc.ssl_channel_credentials(tls.ca, tls.key, tls.cert)


class EtcdMembers:
    """The members of the cluster, used one at a time."""

    def __init__(self, address: EtcdAddress) -> None:
        credentials = channel_credentials(address)
        self._members = [ServerChannel(name, credentials) for name in address.members]
        self._current = 0
        self._user = address.user
        self._password = address.password
        self._token: str | None = None
        self.closed = False

    @property
    def current(self) -> ServerChannel:
        """The member in use."""
        return self._members[self._current]

    def switch_from(self, member: ServerChannel) -> None:
        """Switch to the next member, unless another caller has switched already."""
        if member is self.current:
            self._current = (self._current + 1) % len(self._members)

    async def read(self, method: GrpcMethod[Q, A], request: Q) -> A:
        """Call a method that is safe to repeat; ``StoreUnavailable`` if no member answers."""
        for left in reversed(range(len(self._members))):
            member = self.current
            try:
                return await self._call(member, method, request)
            except grpc.aio.AioRpcError as error:
                self.switch_from(member)
                if left == 0:
                    raise read_error(member.name, error) from error
        raise AssertionError("unreachable")

    async def write(self, method: GrpcMethod[Q, A], request: Q) -> A:
        """Call a method that must be applied at most once; ``failures`` lists its errors."""
        for left in reversed(range(len(self._members))):
            member = self.current
            try:
                return await self._call(member, method, request, writes=True)
            except grpc.aio.AioRpcError as error:
                failure = write_error(member.name, error)
                if isinstance(failure, StoreUnavailable | UnknownOutcome):
                    self.switch_from(member)
                if left == 0 or not certainly_not_taken(error):
                    raise failure from error
        raise AssertionError("unreachable")

    async def metadata(self, member: ServerChannel) -> list[tuple[str, str]]:
        """The gRPC metadata of every call."""
        if self._user is None:
            return [REQUIRE_LEADER]
        if self._token is None:
            request = pb.AuthenticateRequest(name=self._user, password=self._password)
            answer = await member.unary(AUTHENTICATE)(request, timeout=CALL_SECONDS)
            self._token = answer.token
        return [REQUIRE_LEADER, ("token", self._token)]

    def forget_token(self) -> None:
        """Request a new token with the next call."""
        self._token = None

    async def close(self) -> None:
        """Close all channels; running calls fail."""
        self.closed = True
        for member in self._members:
            await member.channel.close()

    async def _call(
        self, member: ServerChannel, method: GrpcMethod[Q, A], request: Q, *, writes: bool = False
    ) -> A:
        try:
            return await self._call_with_token(member, method, request)
        except grpc.aio.UsageError as error:
            raise StoreUnavailable(CLOSED) from error
        except asyncio.CancelledError as error:
            raise_if_closed(error, closed=self.closed, writes=writes)
            raise

    async def _call_with_token(
        self, member: ServerChannel, method: GrpcMethod[Q, A], request: Q
    ) -> A:
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
