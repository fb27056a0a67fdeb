"""etcd's errors in Headwater's terms.

What a failed call means depends on whether it could have been applied. etcd judges a request
before it proposes it, and again as a whole before it applies any part of it; an error of its own
from there says that nothing was written, but for its quota, which it finds exceeded after it has
applied the request (``EtcdStore`` looks). Where the connection or the time was lost nobody
knows, unless the request certainly never left.
"""

import grpc

from headwater.errors import (
    SessionLost,
    StorageFull,
    StoreError,
    StoreUnavailable,
    TransactionTooLarge,
    UnknownOutcome,
)
from headwater.meta.channels import Failure, never_sent

REFUSED = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
)
"""etcd gives these for requests that it does not propose, or does not apply."""

NO_LEADER = "etcdserver: no leader"
NO_LEASE = "etcdserver: requested lease not found"
NO_SPACE = "etcdserver: mvcc: database space exceeded"
TOO_LARGE = ("etcdserver: request is too large", "grpc: received message larger than max")


def passed_over(error: Failure) -> bool:
    """The member certainly did not take the request: another one may."""
    return never_sent(error) or error.details() == NO_LEADER


def token_expired(error: Failure) -> bool:
    """The member asks for a new token; the request was not taken."""
    text = error.details() or ""
    return "invalid auth token" in text or "revision of auth store is old" in text


def read_error(member: str, error: Failure) -> StoreError:
    return StoreUnavailable(_text(member, error))


def write_error(member: str, error: Failure) -> StoreError:
    """What a failed write means."""
    text = error.details() or ""
    if text.startswith(TOO_LARGE):
        return TransactionTooLarge(
            f"a transaction is larger than etcd at {member} takes: {text}; "
            "start etcd with a larger --max-request-bytes"
        )
    if text == NO_LEASE:
        return SessionLost("the session has ended: no key can be bound to it")
    if text == NO_SPACE:
        return StorageFull(
            f"etcd at {member} is full: defragment it, clear its alarm with "
            "`etcdctl alarm disarm`, or give it a larger --quota-backend-bytes"
        )
    if error.code() in REFUSED or passed_over(error):
        return StoreUnavailable(_text(member, error))
    return UnknownOutcome(_text(member, error))


def _text(member: str, error: Failure) -> str:
    return f"etcd at {member}: {error.details() or error.code().name}"
