"""Transactions whose functions can be run again: the retry around them, in one place."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from headwater.errors import (
    KafkaStorageError,
    RequestTimedOut,
    StoreError,
    StoreUnavailable,
    UnknownOutcome,
)
from headwater.meta.store import Committed, Decide, MetadataStore

T = TypeVar("T")

PAUSES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


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
    last: StoreError | None = None
    for pause in (*PAUSES, None):
        try:
            return await attempt()
        except (UnknownOutcome, StoreUnavailable) as error:
            last = error
        except StoreError as error:
            raise KafkaStorageError(str(error)) from error
        if pause is not None:
            await asyncio.sleep(pause)
    raise RequestTimedOut(f"the metadata store did not answer: {last}") from last
