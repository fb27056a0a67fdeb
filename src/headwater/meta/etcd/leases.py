"""Grants and revokes etcd's leases: each session is one lease (``renewals`` renews it).

etcd counts the ttl of a lease in whole seconds, makes a very short one longer, and restarts it
when another member becomes the leader. This process counts the ttl that was requested, which is
never longer, so that it never treats an expired lease as valid.
"""

import math

from headwater.errors import StoreUnavailable
from headwater.meta.etcd.failures import NO_LEASE
from headwater.meta.etcd.members import EtcdMembers
from headwater.meta.etcd.methods import LEASE_GRANT, LEASE_REVOKE
from headwater.meta.etcd.rpc import etcd_pb2 as pb


def session_name(lease: int) -> str:
    return f"{lease:x}"


def lease_of(session: str) -> int:
    return int(session, 16)


async def grant(members: EtcdMembers, ttl: float) -> int:
    """Grant a lease and return its id. If the answer is lost, the lease expires."""
    answer = await members.read(LEASE_GRANT, pb.LeaseGrantRequest(TTL=math.ceil(ttl)))
    return answer.ID


async def revoke(members: EtcdMembers, lease: int) -> None:
    """End a lease and delete its keys; it is no error if it has ended already."""
    try:
        await members.read(LEASE_REVOKE, pb.LeaseRevokeRequest(ID=lease))
    except StoreUnavailable as error:
        if not str(error).endswith(NO_LEASE):
            raise
