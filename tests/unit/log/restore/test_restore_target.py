"""A restore whose metadata store is not fit for it, and what becomes of the cluster then."""

from collections.abc import Sequence
from typing import TypeVar

import pytest

from headwater.cluster_record import ClusterRecord
from headwater.errors import (
    ConfigurationError,
    KafkaStorageError,
    StoreError,
    StoreUnavailable,
)
from headwater.log.restore.claim import check_claim, last_restore
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import CommitResult, Decide
from headwater.meta.values import decode
from tests.support.log.harness import append, make_batch, read_all
from tests.support.log.restoring import RestorePlace, values

T = TypeVar("T")


class ReadOnly(MemoryStore):
    """A store that answers questions and takes no writes, as one whose disk is full."""

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        raise StoreError("the disk is full")


async def test_a_target_that_takes_no_writes_leaves_the_cluster_as_it_was() -> None:
    place = RestorePlace(whole=True)
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"one")])
        await place.snapshot()
        old = place.meta
        place.meta = ReadOnly()
        with pytest.raises(KafkaStorageError, match="the disk is full"):
            await place.restore()
        assert await last_restore(place.objects) == 0
        place.meta = old
        stored = await old.get(keys.CLUSTER)
        assert stored is not None
        await check_claim(place.objects, decode(ClusterRecord, stored.value))
        await append(engine, "t", [make_batch(b"two")])
        assert values(await read_all(engine, "t")) == [b"one", b"two"]


@pytest.mark.parametrize("whole", [True, False])
async def test_a_restore_that_ends_before_its_epoch_deletes_nothing_and_is_run_again(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = RestorePlace(whole=whole)
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"kept")])
        await place.snapshot()
    place.lose_metadata()

    async def fail(_objects: object, _epoch: int) -> None:
        raise StoreUnavailable("the object store is away")

    with monkeypatch.context() as patched:
        patched.setattr("headwater.log.restore.restore.note_restore", fail)
        with pytest.raises(StoreUnavailable):
            await place.restore()
    assert list(place.meta.database.entries) == [keys.CLUSTER]
    with pytest.raises(ConfigurationError, match="was not finished: run headwater restore again"):
        await place.collector().collect_orphans(())
    assert (await place.restore()).epoch == 1
    async with place.engine() as engine:
        assert values(await read_all(engine, "t")) == [b"kept"]
