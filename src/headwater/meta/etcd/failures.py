"""Translates etcd's errors into Headwater's.

The important question is whether a failed write may have been applied. etcd checks a request
before it proposes it, and again before it applies it; an error of either check means that nothing
was written. The exception is the space quota, which etcd may report after it has applied the
request: ``EtcdStore`` then reads the keys to find out. After a lost connection or a timeout the
outcome is unknown, unless the request was certainly never sent.
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
from headwater.meta.grpc_channels import Failure, never_sent

REFUSED = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
)
"""etcd answers with these if it did not propose or did not apply a request."""

NO_LEADER = "etcdserver: no leader"
NO_LEASE = "etcdserver: requested lease not found"
NO_SPACE = "etcdserver: mvcc: database space exceeded"
TOO_LARGE = ("etcdserver: request is too large", "grpc: received message larger than max")


def certainly_not_taken(error: Failure) -> bool:
    """True if the member certainly did not accept the request, so that another one may try it."""
    return never_sent(error) or error.details() == NO_LEADER


def token_expired(error: Failure) -> bool:
    """True if the member refused the request because the token has expired."""
    text = error.details() or ""
    return "invalid auth token" in text or "revision of auth store is old" in text


def read_error(member: str, error: Failure) -> StoreError:
    return StoreUnavailable(_text(member, error))


def write_error(member: str, error: Failure) -> StoreError:
    """The error that a caller gets for a failed write."""
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
    if error.code() in REFUSED or certainly_not_taken(error):
        return StoreUnavailable(_text(member, error))
    return UnknownOutcome(_text(member, error))


def _text(member: str, error: Failure) -> str:
    return f"etcd at {member}: {error.details() or error.code().name}"
