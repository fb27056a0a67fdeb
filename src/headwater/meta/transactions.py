"""Transactions that are retried: their functions may run several times."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from headwater.errors import (
    KafkaStorageError,
    RequestTimedOut,
    StoreError,
    StoreUnavailable,
    UnknownOutcome,
)
from headwater.meta.store import CommitResult, Decide, MetadataStore
from headwater.retry import Backoff, retry

T = TypeVar("T")

NO_ANSWER: Final = (UnknownOutcome, StoreUnavailable)
BACKOFF: Final = Backoff(first=0.03, longest=1.0, attempts=7)


async def transact(store: MetadataStore, keys: Sequence[str], decide: Decide[T]) -> T:
    """Like ``commit``; returns the result alone."""
    return (await commit(store, keys, decide)).result


async def commit(store: MetadataStore, keys: Sequence[str], decide: Decide[T]) -> CommitResult[T]:
    """Run a transaction, and run it again if it was not committed or its outcome is unknown.

    If an earlier attempt was committed, ``decide`` must return the same result. Raises what
    ``decide`` raises, ``RequestTimedOut`` if the store does not answer any attempt, and
    ``KafkaStorageError`` if the store fails in another way.
    """
    return await retry_transaction(lambda: store.transact(0, keys, decide))


async def retry_transaction(attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat ``attempt`` until the store answers; raises as ``commit`` does."""
    try:
        return await retry(attempt, on=NO_ANSWER, pauses=BACKOFF.pauses())
    except NO_ANSWER as error:
        raise RequestTimedOut(f"the metadata store did not answer: {error}") from error
    except StoreError as error:
        raise KafkaStorageError(str(error)) from error
