"""Sessions: etcd's leases, each renewed by a call of its own (``renewals``).

A lease outlives its process by its time to live, which etcd counts in whole seconds and makes
longer where it is very short; a member that becomes the leader starts the time of every lease
again. This side counts what was asked for, so that it never takes an ended lease for a living one.
"""

import math

from headwater.errors import StoreUnavailable
from headwater.meta.etcd.failures import NO_LEASE
from headwater.meta.etcd.members import Members
from headwater.meta.etcd.methods import LEASE_GRANT, LEASE_REVOKE
from headwater.meta.etcd.rpc import etcd_pb2 as pb


def session_name(lease: int) -> str:
    return f"{lease:x}"


def lease_of(session: str) -> int:
    return int(session, 16)


async def grant(members: Members, ttl: float) -> int:
    """A new lease. One whose answer is lost runs out by itself."""
    answer = await members.read(LEASE_GRANT, pb.LeaseGrantRequest(TTL=math.ceil(ttl)))
    return answer.ID


async def revoke(members: Members, lease: int) -> None:
    """End a lease with its keys; one that has ended already is no error."""
    try:
        await members.read(LEASE_REVOKE, pb.LeaseRevokeRequest(ID=lease))
    except StoreUnavailable as error:
        if not str(error).endswith(NO_LEASE):
            raise
