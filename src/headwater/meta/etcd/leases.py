"""Sessions: etcd's leases, each renewed by a call of its own.

A lease outlives its process by its time to live, which etcd counts in whole seconds and makes
longer where it is very short; a member that becomes the leader starts the time of every lease
again. This side counts what was asked for, so that it never takes an ended lease for a living one.
"""

import math

import grpc

from headwater.errors import SessionLost, StoreUnavailable
from headwater.meta.channels import CLOSED
from headwater.meta.etcd.failures import NO_LEASE, read_error, token_expired
from headwater.meta.etcd.members import CALL_SECONDS, Members
from headwater.meta.etcd.methods import LEASE_GRANT, LEASE_KEEP_ALIVE, LEASE_REVOKE
from headwater.meta.etcd.rpc import etcd_pb2 as pb


def session_name(lease: int) -> str:
    return f"{lease:x}"


def lease_of(session: str) -> int:
    return int(session, 16)


async def grant(members: Members, ttl: float) -> int:
    """A new lease. One whose answer is lost runs out by itself."""
    answer = await members.read(LEASE_GRANT, pb.LeaseGrantRequest(TTL=math.ceil(ttl)))
    return answer.ID


async def keep_alive(members: Members, lease: int) -> None:
    """Renew a lease once; ``SessionLost`` where etcd has ended it."""
    member = members.current
    try:
        call = member.stream(LEASE_KEEP_ALIVE)(
            timeout=CALL_SECONDS, metadata=await members.metadata(member)
        )
        try:
            await call.write(pb.LeaseKeepAliveRequest(ID=lease))
            answer = await call.read()
        finally:
            call.cancel()
    except grpc.aio.AioRpcError as error:
        if token_expired(error):
            members.forget_token()
        else:
            members.leave(member)
        raise read_error(member.name, error) from error
    except grpc.aio.UsageError as error:
        raise StoreUnavailable(CLOSED) from error
    if answer is grpc.aio.EOF:
        members.leave(member)
        raise StoreUnavailable(f"etcd at {member.name} ended a renewal without an answer")
    if answer.TTL <= 0:
        raise SessionLost(f"session {session_name(lease)} has ended")


async def revoke(members: Members, lease: int) -> None:
    """End a lease with its keys; one that has ended already is no error."""
    try:
        await members.read(LEASE_REVOKE, pb.LeaseRevokeRequest(ID=lease))
    except StoreUnavailable as error:
        if not str(error).endswith(NO_LEASE):
            raise
