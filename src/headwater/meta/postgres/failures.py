"""PostgreSQL's errors in Headwater's terms."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from headwater.errors import (
    ConfigurationError,
    StorageFull,
    StoreError,
    StoreUnavailable,
    TransactionTooLarge,
    UnknownOutcome,
)

ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    RuntimeError,
)
"""What a connection raises; one that is lost at a bad moment raises any of them."""

UNDECIDED = ("08", "57P", "25P04", "40003", "58", "XX")
"""SQLSTATEs after which a commit may have landed.

A server that is told to stop while it waits for its replicas has committed already; the others
are lost connections and failures of the server itself. A ``transaction_timeout`` that runs out
as the commit begins is told after it. Every other error rolls back.
"""

_REFUSED_AT_START = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.ClientConfigurationError,
)


def store_error(error: BaseException, label: str, *, commits: bool = False) -> StoreError:
    """What a failed call means; ``commits`` where a commit had been sent and not answered."""
    reason = str(error) or type(error).__name__
    text = f"metadata database {label}: {reason}"
    state = error.sqlstate if isinstance(error, asyncpg.PostgresError) else None
    if commits and (state is None or state.startswith(UNDECIDED)):
        return UnknownOutcome(text)
    if isinstance(error, asyncpg.DiskFullError):
        return StorageFull(f"{text}; free some space")
    if isinstance(error, asyncpg.ProgramLimitExceededError):  # a key that no index takes
        return TransactionTooLarge(text)
    if isinstance(error, asyncpg.LockNotAvailableError):
        return StoreUnavailable(f"{text}; another broker held its lock for too long")
    return StoreUnavailable(text)


@contextmanager
def translated(label: str) -> Iterator[None]:
    """For calls that may be made again: whatever fails is a ``StoreError``."""
    try:
        yield
    except ERRORS as error:
        raise store_error(error, label) from error


@contextmanager
def translated_at_start(label: str) -> Iterator[None]:
    """Like ``translated``; what only a person can mend is a ``ConfigurationError``."""
    try:
        yield
    except _REFUSED_AT_START as error:
        raise ConfigurationError(
            f"metadata database {label} cannot be used: {error}; "
            "check the URL, and the rights of its user"
        ) from error
    except ERRORS as error:
        raise store_error(error, label) from error
