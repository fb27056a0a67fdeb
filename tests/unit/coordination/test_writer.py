"""The writer: order, batches, leases compared, and what follows where the store fails."""

import asyncio
from collections.abc import Sequence

import pytest

from headwater.coordination.shards import Shard
from headwater.coordination.writer import ShardWriter, WriteMetrics
from headwater.coordination.writes import ShardWrite
from headwater.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    StorageFull,
    StoreUnavailable,
    UnknownOutcome,
)
from headwater.groups.group import GROUPS, OFFSETS_MARK, TORN_MARK, Group
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import CommitResult, Decide, Limits, T, Writes
from headwater.telemetry.metrics import Metrics
from tests.support.simulation.loop import on_simulated_time


class Troubled(MemoryStore):
    """A store whose next transactions fail with the given errors; None lets one succeed."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.failures: list[Exception | None] = []
        self.lands = False
        self.transactions: list[Writes] = []
        self.late: list[tuple[Sequence[str], Decide[object]]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        await self.gate.wait()
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None and not self.lands:
            self.late.append((keys, decide))
            raise failure

        def noting(values: object) -> tuple[Writes, T]:
            writes, result = decide(values)  # type: ignore[arg-type]
            self.transactions.append(writes)
            return writes, result

        committed = await super().transact(domain, keys, noting)
        if failure is not None:
            raise failure
        return committed


class TroubledShardWriter:
    """A writer on a troubled store, with shards whose leases stand in it."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.store = Troubled(limits)
        self.resigned: list[tuple[int, type[KafkaError]]] = []
        self._terms = 0
        self.metrics = Metrics()
        self.writer = ShardWriter(
            self.store,
            GROUPS.noun,
            WriteMetrics(self.metrics.group_writes, self.metrics.group_write_seconds),
            resign=self._resign,
            next_lease=self._next_lease,
            timeout=0.2,
        )

    def _next_lease(self) -> bytes:
        self._terms += 1
        return b"lease %d" % self._terms

    def _resign(self, shard: Shard[Group], error: KafkaError) -> None:
        if not shard.resigned:
            shard.resign(error)
            self.resigned.append((shard.number, type(error)))
            self.writer.discard(shard, error)

    async def shard(self, number: int) -> Shard[Group]:
        session = await self.store.session(60)
        lease, key = self._next_lease(), GROUPS.lease_key(number)
        await MemoryStore.transact(self.store, 0, [], lambda _: (Writes(puts={key: lease}), None))
        return Shard(GROUPS, number, lease, 0, session)

    def submit(self, shard: Shard[Group], key: str, value: bytes | None) -> "asyncio.Future[str]":
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.writer.submit(ShardWrite(shard, {key: value}, waiting=[(done, key)]))
        return done

    def value(self, key: str) -> bytes | None:
        entry = self.store.database.entries.get(key)
        return None if entry is None else entry.value

    async def close(self) -> None:
        await self.writer.close()
        await self.store.close()


@on_simulated_time
async def test_writes_that_wait_for_a_running_transaction_share_the_next_one() -> None:
    bench = TroubledShardWriter()
    shards = [await bench.shard(number) for number in range(3)]
    bench.store.gate.clear()
    first = bench.submit(shards[0], "first", b"1")
    await asyncio.sleep(0)
    others = [bench.submit(shards[n % 3], f"k{n}", b"%d" % n) for n in range(30)]
    await asyncio.sleep(0)
    assert not first.done()
    bench.store.gate.set()
    assert await asyncio.gather(first, *others) == ["first", *(f"k{n}" for n in range(30))]
    assert [len(writes.puts) for writes in bench.store.transactions] == [1, 30]
    assert bench.metrics.group_writes.value == 2
    await bench.close()


@on_simulated_time
async def test_the_last_of_several_changes_of_a_key_wins() -> None:
    bench = TroubledShardWriter()
    shard = await bench.shard(0)
    await asyncio.gather(
        bench.submit(shard, "a/put", b"1"),
        bench.submit(shard, "a/put", b"2"),
        bench.submit(shard, "a/gone", b"1"),
        bench.submit(shard, "a/gone", None),
    )
    assert (bench.value("a/put"), bench.value("a/gone")) == (b"2", None)
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    bench.submit(shard, "a/before", b"1")
    bench.writer.submit(ShardWrite(shard, {}, (("a/", "a0"),)))
    bench.writer.submit(ShardWrite(shard, {"a/after": b"1"}, waiting=[(done, None)]))
    await done
    found = await bench.store.scan("a/", "a0")
    assert [entry.key for entry in found.entries] == ["a/after"]
    await bench.close()


@on_simulated_time
async def test_a_store_with_few_operations_gets_more_transactions_in_the_same_order() -> None:
    bench = TroubledShardWriter(Limits(operations=6))
    shard = await bench.shard(0)
    large: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    bench.writer.submit(
        ShardWrite(shard, {f"k{n:02d}": b"x" for n in range(20)}, waiting=[(large, None)])
    )
    await asyncio.gather(large, *(bench.submit(shard, f"l{n}", b"x") for n in range(9)))
    written = [key for writes in bench.store.transactions for key in writes.puts]
    assert written == [*(f"k{n:02d}" for n in range(20)), *(f"l{n}" for n in range(9))]
    await bench.close()


@on_simulated_time
async def test_a_group_is_marked_while_it_is_written_in_several_transactions() -> None:
    bench = TroubledShardWriter(Limits(operations=6))
    shard = await bench.shard(3)
    records = keys.records_of_group(3, "g")
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    changes: dict[str, bytes | None] = {f"{records}{n}": b"x" for n in range(9)}
    mark = f"{records}{TORN_MARK}"
    bench.writer.submit(ShardWrite(shard, changes, waiting=[(done, None)], torn_mark=mark))
    await done
    first, *_, last = bench.store.transactions
    assert mark in first.puts
    assert mark in last.deletes
    offsets: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    many: dict[str, bytes | None] = {f"{keys.offsets_of_group(3, 'g')}{n}": b"x" for n in range(9)}
    many[f"{records}{OFFSETS_MARK}"] = b""
    bench.writer.submit(ShardWrite(shard, many, waiting=[(offsets, None)]))
    seen = len(bench.store.transactions)
    await offsets
    assert not any(mark in writes.puts for writes in bench.store.transactions[seen:])
    await bench.close()


@on_simulated_time
async def test_a_lost_lease_fails_its_shard_and_spares_the_others() -> None:
    bench = TroubledShardWriter()
    mine, lost = await bench.shard(1), await bench.shard(2)
    lost.lease = b"of another time"
    good, bad = bench.submit(mine, "good", b"1"), bench.submit(lost, "bad", b"1")
    assert await good == "good"
    with pytest.raises(NotCoordinator):
        await bad
    assert bench.resigned == [(2, NotCoordinator)]
    assert (bench.value("good"), bench.value("bad")) == (b"1", None)
    await bench.close()


@pytest.mark.parametrize("lands", [True, False])
@on_simulated_time
async def test_a_lost_answer_is_resolved_and_a_late_commit_changes_nothing(*, lands: bool) -> None:
    bench = TroubledShardWriter()
    shard = await bench.shard(0)
    before = shard.lease
    bench.store.failures, bench.store.lands = (
        [UnknownOutcome("lost"), UnknownOutcome("lost")],
        lands,
    )
    assert await bench.submit(shard, "k", b"1") == "k"
    assert shard.lease != before
    assert bench.value(GROUPS.lease_key(0)) == shard.lease
    assert await bench.submit(shard, "k", b"2") == "k"
    for late_keys, decide in bench.store.late:
        with pytest.raises(Exception):  # noqa: B017, PT011 - refused inside the transaction
            await bench.store.transact(0, late_keys, decide)
    assert bench.value("k") == b"2"
    assert bench.resigned == []
    await bench.close()


@on_simulated_time
async def test_a_short_outage_of_the_store_is_waited_for() -> None:
    bench = TroubledShardWriter()
    shard = await bench.shard(0)
    before = shard.lease
    bench.store.failures = [StoreUnavailable("away")] * 3
    assert await bench.submit(shard, "k", b"1") == "k"
    assert shard.lease == before
    await bench.close()


@on_simulated_time
async def test_a_long_outage_fails_the_shard_and_all_of_its_queued_writes() -> None:
    bench = TroubledShardWriter()
    shard = await bench.shard(0)
    bench.store.failures = [StoreUnavailable("away")] * 100
    first = bench.submit(shard, "k", b"1")
    await asyncio.sleep(0.05)
    second = bench.submit(shard, "l", b"1")
    for failed in (first, second):
        with pytest.raises(CoordinatorNotAvailable):
            await failed
    assert bench.resigned == [(0, CoordinatorNotAvailable)]
    await bench.close()


@on_simulated_time
async def test_a_write_to_a_full_store_is_not_repeated() -> None:
    bench = TroubledShardWriter()
    shard = await bench.shard(0)
    bench.store.failures = [StorageFull("no space left")]
    with pytest.raises(CoordinatorNotAvailable):
        await bench.submit(shard, "k", b"1")
    assert bench.resigned == [(0, CoordinatorNotAvailable)]
    await bench.close()


@on_simulated_time
async def test_a_waiting_client_that_disconnected_does_not_affect_others() -> None:
    bench = TroubledShardWriter()
    shard = await bench.shard(0)
    bench.store.gate.clear()
    gone, here = bench.submit(shard, "a", b"1"), bench.submit(shard, "b", b"1")
    gone.cancel()
    bench.store.gate.set()
    assert await here == "b"
    assert bench.value("a") == b"1"
    await bench.close()


@on_simulated_time
async def test_a_write_that_is_too_large_for_the_store_fails_alone() -> None:
    bench = TroubledShardWriter(Limits(operations=128, value_bytes=1_000))
    one, two = await bench.shard(0), await bench.shard(1)
    bench.store.gate.clear()
    first = bench.submit(two, "first", b"1")
    await asyncio.sleep(0)
    before = bench.submit(one, "before", b"1")
    large, after = bench.submit(one, "large", b"x" * 1_001), bench.submit(one, "after", b"1")
    beside = bench.submit(two, "beside", b"1")
    bench.store.gate.set()
    assert [await done for done in (first, before, beside)] == ["first", "before", "beside"]
    with pytest.raises(KafkaError) as refused:
        await large
    assert not refused.value.retriable
    with pytest.raises(CoordinatorNotAvailable):  # its machine is loaded again without "large"
        await after
    assert bench.resigned == [(0, CoordinatorNotAvailable)]
    assert (bench.value("before"), bench.value("after")) == (b"1", None)
    await bench.close()


@on_simulated_time
async def test_a_large_group_is_written_in_parts_or_not_at_all() -> None:
    bench = TroubledShardWriter(Limits(operations=128, value_bytes=2**20))
    shard = await bench.shard(3)
    records = keys.records_of_group(3, "g")
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    changes: dict[str, bytes | None] = {f"{records}{n}": b"x" * 400_000 for n in range(9)}
    mark = f"{records}{TORN_MARK}"
    bench.writer.submit(ShardWrite(shard, changes, waiting=[(done, None)], torn_mark=mark))
    await done
    written = bench.store.transactions
    assert max(sum(map(len, writes.puts.values())) for writes in written) < 2**20
    assert mark in written[0].puts
    assert mark in written[-1].deletes
    changes = {f"{records}{n}": b"y" * (2**18 * n) for n in range(6)}
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    bench.writer.submit(ShardWrite(shard, changes, waiting=[(failed, None)], torn_mark=mark))
    with pytest.raises(KafkaError):
        await failed
    assert bench.value(f"{records}0") == b"x" * 400_000
    await bench.close()


@on_simulated_time
async def test_an_unexpected_failure_fails_its_batch_and_not_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = TroubledShardWriter()
    one, two = await bench.shard(0), await bench.shard(1)
    bench.store.failures = [RuntimeError("odd")]
    bench.store.gate.clear()
    first = bench.submit(one, "a", b"1")
    await asyncio.sleep(0)
    second = bench.submit(two, "b", b"1")
    await asyncio.sleep(0)
    bench.store.gate.set()
    with pytest.raises(CoordinatorNotAvailable):
        await first
    async with asyncio.timeout(3):
        assert await second == "b"
    assert bench.resigned == [(0, CoordinatorNotAvailable)]
    assert "failed unexpectedly" in caplog.text
    await bench.close()
