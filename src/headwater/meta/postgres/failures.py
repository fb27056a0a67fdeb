"""Translates PostgreSQL's errors into Headwater's."""

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
"""Errors of a connection; a connection that is lost may raise any of them."""

UNKNOWN_OUTCOME = ("08", "57P", "25P04", "40003", "58", "XX")
"""SQLSTATEs after which a commit may have landed.

A server that is stopped while it waits for its replicas has committed already. The others are
lost connections and failures of the server. A ``transaction_timeout`` that ends during the commit
is reported after it. Every other error rolls the transaction back.
"""

_REFUSED_AT_START = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.ClientConfigurationError,
)


def store_error(error: BaseException, label: str, *, commits: bool = False) -> StoreError:
    """The error of a failed call; ``commits`` says that a commit was sent and not answered."""
    reason = str(error) or type(error).__name__
    text = f"metadata database {label}: {reason}"
    state = error.sqlstate if isinstance(error, asyncpg.PostgresError) else None
    if commits and (state is None or state.startswith(UNKNOWN_OUTCOME)):
        return UnknownOutcome(text)
    if isinstance(error, asyncpg.DiskFullError):
        return StorageFull(f"{text}; free space on its disk")
    if isinstance(error, asyncpg.ProgramLimitExceededError):  # a key that no index takes
        return TransactionTooLarge(text)
    if isinstance(error, asyncpg.LockNotAvailableError):
        return StoreUnavailable(f"{text}; another broker held the lock for too long")
    return StoreUnavailable(text)


@contextmanager
def translated(label: str) -> Iterator[None]:
    """Raise a ``StoreError`` for every failure of a call that is safe to repeat."""
    try:
        yield
    except ERRORS as error:
        raise store_error(error, label) from error


@contextmanager
def translated_at_start(label: str) -> Iterator[None]:
    """Like ``translated``, but raise ``ConfigurationError`` for errors that a retry cannot fix."""
    try:
        yield
    except _REFUSED_AT_START as error:
        raise ConfigurationError(
            f"metadata database {label} cannot be used: {error}; "
            "check the URL and the permissions of its user"
        ) from error
    except ERRORS as error:
        raise store_error(error, label) from error
