"""The queue of transactions, and their commits in batches.

A batch takes two round trips: the first reads the keys, the second commits. Between them this
process runs the transactions, without a lock in the database. The commit takes the lock and
compares the revisions of the keys that were read. If one has changed, the batch is read, run and
committed again with the lock held from the start, which cannot lose.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headwater.errors import (
    SessionLost,
    StoreError,
    StoreUnavailable,
    TransactionTooLarge,
    UnknownOutcome,
)
from headwater.meta.feed import Item
from headwater.meta.postgres.address import PostgresAddress
from headwater.meta.postgres.batch import PostgresBatch, QueuedTransaction, decide_batch
from headwater.meta.postgres.connections import PostgresConnections
from headwater.meta.postgres.failures import ERRORS, store_error
from headwater.meta.postgres.key_text import is_storable
from headwater.meta.store import CommitResult, Decide, Entry, T

if TYPE_CHECKING:
    import asyncpg

    from headwater.meta.postgres.connections import Connection

log = logging.getLogger(__name__)

MAX_BATCH = 256

LOCK = "BEGIN; SELECT FROM head FOR UPDATE"
READ = """
SELECT head.revision AS now, found.key, found.value, found.revision
FROM head LEFT JOIN entry AS found ON found.key = ANY ($1::text[])
"""
COMMIT = """
SELECT * FROM commit_batch(
  $1, $2, $3, $4, $5::integer[], $6::text[], $7::bytea[], $8::text[],
  $9::integer[], $10::text[], $11::integer[], $12::text[], $13::text[], $14
)
"""


class PostgresCommitter:
    """Commits transactions in batches, one at a time. Keep ``run`` in a task.

    ``publish`` is called with every revision and its changes, before the caller gets its result.
    """

    def __init__(
        self,
        connections: PostgresConnections,
        address: PostgresAddress,
        publish: Callable[[int, list[Item]], None],
    ) -> None:
        self._connections = connections
        self._label = address.label
        self._publish = publish
        self._queue: deque[QueuedTransaction] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    async def transact(self, keys: Sequence[str], decide: Decide[T]) -> CommitResult[T]:
        if self._closed:
            raise StoreUnavailable("the metadata store is closed")
        future: asyncio.Future[CommitResult[Any]] = asyncio.get_running_loop().create_future()
        self._queue.append(QueuedTransaction(keys, decide, future))
        self._arrived.set()
        return await future

    async def run(self) -> None:
        """Commit until cancelled."""
        locked = False
        alone = 0  # transactions to commit one by one, because their batch was too large
        while True:
            if not self._queue:
                self._arrived.clear()
                await self._arrived.wait()
            size = 1 if alone else MAX_BATCH
            alone = max(0, alone - 1)
            taken = [self._queue.popleft() for _ in range(min(size, len(self._queue)))]
            try:
                again, locked = await self._commit(taken, locked=locked)
            except StoreError as error:
                again, locked = [], False
                if isinstance(error, TransactionTooLarge) and len(taken) > 1:
                    again, alone = taken, len(taken)
                else:
                    _fail(taken, error)
            except asyncio.CancelledError:
                _fail(taken, UnknownOutcome("the metadata store was closed"))
                raise
            except Exception as error:
                log.exception("A batch of metadata transactions failed")
                again, locked = [], False
                _fail(taken, UnknownOutcome(f"metadata database {self._label}: {error!r}"))
            self._queue.extendleft(reversed(again))

    def close(self) -> None:
        """Fail all waiting transactions, and refuse further ones."""
        self._closed = True
        _fail(self._queue, StoreUnavailable("the metadata store is closed"))
        self._queue.clear()

    async def _commit(
        self, taken: Sequence[QueuedTransaction], *, locked: bool
    ) -> tuple[list[QueuedTransaction], bool]:
        """Returns the transactions that must run again, and whether to hold the lock then."""
        sent = False
        try:
            async with self._connections.held() as connection:
                if locked:
                    await connection.execute(LOCK)
                seen, revision = await _read(connection, taken)
                batch = decide_batch(taken, seen, revision)
                outcome = None
                if batch.transactions:
                    sent = not locked
                    (outcome,) = await connection.fetch(COMMIT, *batch.arguments(seen))
                if locked:
                    sent = True
                    done = outcome is not None and outcome["outcome"] == "done"
                    await connection.execute("COMMIT" if done else "ROLLBACK")
        except ERRORS as error:
            raise store_error(error, self._label, commits=sent) from error
        return self._settle(batch, outcome)

    def _settle(
        self, batch: PostgresBatch, outcome: "asyncpg.Record | None"
    ) -> tuple[list[QueuedTransaction], bool]:
        if outcome is None:
            return batch.deferred, False
        if outcome["outcome"] == "done":
            changed = batch.items(outcome["gone_steps"], outcome["gone_keys"])
            for number, (decided, items) in enumerate(
                zip(batch.transactions, changed, strict=True), 1
            ):
                revision = outcome["base"] + number
                self._publish(revision, items)
                if not decided.queued.future.done():
                    decided.queued.future.set_result(CommitResult(revision, decided.result))
            return batch.deferred, False
        lost = set(outcome["lost"] or ())
        for decided in batch.transactions:
            if ended := lost.intersection(decided.writes.ephemeral.values()):
                _fail([decided.queued], SessionLost(f"session {ended.pop()} has ended"))
        again = [
            decided.queued for decided in batch.transactions if not decided.queued.future.done()
        ]
        return again + batch.deferred, outcome["outcome"] == "conflict"


async def _read(
    connection: "Connection", taken: Sequence[QueuedTransaction]
) -> tuple[dict[str, Entry | None], int]:
    seen: dict[str, Entry | None] = dict.fromkeys(key for each in taken for key in each.keys)
    rows = await connection.fetch(READ, list(filter(is_storable, seen)))
    for _, key, value, revision in rows:
        if key is not None:
            seen[key] = Entry(key, value, revision)
    return seen, rows[0]["now"]


def _fail(
    waiting: Sequence[QueuedTransaction] | deque[QueuedTransaction], error: StoreError
) -> None:
    for each in waiting:
        if not each.future.done():
            each.future.set_exception(error)
