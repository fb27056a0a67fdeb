"""Transactions whose functions can be run again: the retry around them, in one place."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from headwater.errors import (
    KafkaStorageError,
    RequestTimedOut,
    StoreError,
    StoreUnavailable,
    UnknownOutcome,
)
from headwater.meta.store import Committed, Decide, MetadataStore
from headwater.retry import Backoff, retry

T = TypeVar("T")

SILENT: Final = (UnknownOutcome, StoreUnavailable)
BACKOFF: Final = Backoff(first=0.03, longest=1.0, attempts=7)


async def transact(store: MetadataStore, keys: Sequence[str], decide: Decide[T]) -> T:
    """Like ``commit``; returns the result alone."""
    return (await commit(store, keys, decide)).result


async def commit(store: MetadataStore, keys: Sequence[str], decide: Decide[T]) -> Committed[T]:
    """Run a transaction again where it did not land or nobody knows.

    ``decide`` must find the same end when its first run has landed. Raises what it raises,
    ``RequestTimedOut`` where the store stays silent, ``KafkaStorageError`` where it fails.
    """
    return await again(lambda: store.transact(0, keys, decide))


async def again(attempt: Callable[[], Awaitable[T]]) -> T:
    """Make attempts until one lands; raises as ``commit`` does."""
    try:
        return await retry(attempt, on=SILENT, pauses=BACKOFF.pauses())
    except SILENT as error:
        raise RequestTimedOut(f"the metadata store did not answer: {error}") from error
    except StoreError as error:
        raise KafkaStorageError(str(error)) from error
