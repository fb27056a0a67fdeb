"""What every metadata store must do, as tests that a backend's test class inherits.

A subclass gives the fixture ``backend``; no test has more than 100 operations in a transaction
or a value above 1 MiB.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, suppress
from itertools import chain
from typing import Protocol

import pytest

from headwater.errors import TransactionTooLarge, WatchTrimmed
from headwater.meta.store import (
    CommitResult,
    Entry,
    KeyChange,
    MetadataStore,
    Session,
    Values,
    Writes,
    prefix_end,
)

MIB = 2**20

Open = Callable[[], Awaitable[MetadataStore]]


class Backend(Protocol):
    """One set of data under test, empty at first."""

    async def open(self) -> MetadataStore:
        """A store on the data; one that is opened again sees the same."""
        ...

    async def forget_changes(self) -> None:
        """Make every revision so far too old to be watched from by a store opened later."""
        ...

    async def abandon(self, session: Session) -> None:
        """Stop renewing a session, as a crash of its process would."""
        ...


class RefusedDecision(Exception):
    pass


def puts(entries: dict[str, bytes]) -> Callable[[Values], tuple[Writes, None]]:
    return lambda values: (Writes(puts=dict(entries)), None)


async def put(store: MetadataStore, **entries: bytes) -> int:
    return (await store.transact(0, [], puts(entries))).revision


def increment(key: str) -> Callable[[Values], tuple[Writes, int]]:
    def decide(values: Values) -> tuple[Writes, int]:
        entry = values[key]
        count = int(entry.value) + 1 if entry else 1
        return Writes(puts={key: b"%d" % count}), count

    return decide


async def take(watch: AsyncIterator[list[KeyChange]], count: int) -> list[KeyChange]:
    """The next ``count`` changes, however they are grouped."""
    taken: list[KeyChange] = []
    async with asyncio.timeout(20):
        while len(taken) < count:
            taken.extend(await anext(watch))
    return taken


async def bind(store: MetadataStore, session: Session, key: str) -> CommitResult[None]:
    def decide(values: Values) -> tuple[Writes, None]:
        writes = Writes()
        writes.put(key, b"alive", session=session.id)
        return writes, None

    return await store.transact(0, [], decide)


class MetadataStoreConformance:
    @pytest.fixture
    async def opened(self, backend: Backend) -> AsyncIterator[Open]:
        async with AsyncExitStack() as stack:

            async def open_store() -> MetadataStore:
                store = await backend.open()
                stack.push_async_callback(store.close)
                return store

            yield open_store

    @pytest.fixture
    async def store(self, opened: Open) -> MetadataStore:
        return await opened()

    @pytest.fixture
    async def other(self, opened: Open, store: MetadataStore) -> MetadataStore:
        return await opened()

    async def test_an_absent_key_is_none(self, store: MetadataStore) -> None:
        assert await store.get("nothing") is None

    async def test_a_value_is_read_with_the_revision_that_wrote_it(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        revision = await put(store, a=b"1")
        await put(store, b=b"2")
        assert await other.get("a") == Entry("a", b"1", revision)

    async def test_an_empty_value_is_not_an_absent_one(self, store: MetadataStore) -> None:
        await put(store, a=b"")
        entry = await store.get("a")
        assert entry is not None
        assert entry.value == b""
        seen = await store.transact(0, ["a"], lambda values: (Writes(), values["a"]))
        assert seen.result == entry

    async def test_a_scan_is_ordered_bounded_and_names_its_revision(
        self, store: MetadataStore
    ) -> None:
        revision = await put(store, **{f"k/{i:02d}": b"%d" % i for i in range(20)}, l=b"", j=b"")
        scan = await store.scan("k/", prefix_end("k/"))
        assert [entry.key for entry in scan.entries] == [f"k/{i:02d}" for i in range(20)]
        assert scan.revision == revision
        some = await store.scan("k/05", "k/15", limit=3)
        assert [entry.value for entry in some.entries] == [b"5", b"6", b"7"]

    async def test_a_reverse_scan_starts_at_the_end(self, store: MetadataStore) -> None:
        await put(store, **{f"k/{i:02d}": b"%d" % i for i in range(20)})
        some = await store.scan("k/05", "k/15", limit=3, reverse=True)
        assert [entry.value for entry in some.entries] == [b"14", b"13", b"12"]
        whole = await store.scan("k/", "k0", reverse=True)
        assert len(whole.entries) == 20

    async def test_a_bound_may_be_right_behind_a_key(self, store: MetadataStore) -> None:
        await put(store, **{"k": b"", "k/a": b"", "k/a\x01": b"", "k/b": b"", "l": b""})
        behind = await store.scan("k/a\0", "l", limit=9)
        assert [entry.key for entry in behind.entries] == ["k/a\x01", "k/b"]
        upto = await store.scan("k", "k/a\0", reverse=True)
        assert [entry.key for entry in upto.entries] == ["k/a", "k"]

        def delete(_values: Values) -> tuple[Writes, None]:
            return Writes(range_deletes=[("k\0", "k/b\0")]), None

        await store.transact(0, [], delete)
        assert [entry.key for entry in (await store.scan("", "z")).entries] == ["k", "l"]

    async def test_pages_are_of_one_moment_whatever_is_written_meanwhile(
        self, store: MetadataStore
    ) -> None:
        await put(store, **{f"k{number}": b"old" for number in range(5)})
        before = (await store.scan("k", "l")).revision
        found: list[Entry] = []
        async with aclosing(store.scan_pages("k", "l", size=2)) as pages:
            async for page in pages:
                assert len(page.entries) <= 2
                assert page.revision == before
                found += page.entries
                await put(store, k4=b"new", **{f"k1{len(found)}": b"new"})
                await store.transact(0, [], lambda _: (Writes(deletes=["k3"]), None))
        assert [(entry.key, entry.value) for entry in found] == [
            (f"k{number}", b"old") for number in range(5)
        ]

    async def test_pages_that_are_left_in_the_middle_hold_nothing_up(
        self, store: MetadataStore
    ) -> None:
        await put(store, k1=b"", k2=b"", k3=b"")
        async with aclosing(store.scan_pages("k", "l", size=1)) as pages:
            async for page in pages:
                assert [entry.key for entry in page.entries] == ["k1"]
                break
        async with aclosing(store.scan_pages("x", "y", size=1)) as pages:
            assert [page.entries async for page in pages] == [[]]
        await put(store, k1=b"x")

    async def test_a_scan_of_no_entries_has_none(self, store: MetadataStore) -> None:
        revision = await put(store, a=b"1", b=b"2")
        for reverse in (False, True):
            scan = await store.scan("a", "c", limit=0, reverse=reverse)
            assert (scan.entries, scan.revision) == ([], revision)

    async def test_a_key_that_cannot_be_is_absent(self, store: MetadataStore) -> None:
        name = "topics/a\0b"
        assert await store.get(name) is None
        seen, *others = await asyncio.gather(
            store.transact(0, [name], lambda values: (Writes(), values[name])),
            store.transact(0, [name, "n"], increment("n")),
            store.transact(0, ["m"], increment("m")),
        )
        assert seen.result is None
        assert [each.result for each in others] == [1, 1]

    async def test_a_store_works_after_a_transaction_that_is_too_large(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        value = bytes(min(MIB, store.limits.value_bytes or MIB))
        with suppress(TransactionTooLarge):
            await store.transact(0, [], puts({f"k/{i}": value for i in range(40)}))
        assert (await other.transact(0, ["n"], increment("n"))).result == 1

    async def test_a_scan_of_an_empty_range_has_the_current_revision(
        self, store: MetadataStore
    ) -> None:
        revision = await put(store, a=b"1")
        scan = await store.scan("x", "y")
        assert scan.entries == []
        assert scan.revision == revision

    async def test_keys_sort_by_their_bytes(self, store: MetadataStore) -> None:
        keys = ["A", "Z", "a", "a-", "a.", "a/", "a/b", "a0", "a:", "a_", "aa", "b~"]
        await put(store, **dict.fromkeys(reversed(keys), b""))
        scan = await store.scan(" ", "~~")
        assert [entry.key for entry in scan.entries] == keys

    async def test_a_transaction_sees_the_keys_that_it_asks_for(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        revision = await put(store, a=b"1", b=b"2")
        seen = await other.transact(0, ["a", "none", "b"], lambda v: (Writes(), dict(v)))
        assert seen.result == {
            "a": Entry("a", b"1", revision),
            "none": None,
            "b": Entry("b", b"2", revision),
        }
        assert seen.revision == revision

    async def test_revisions_grow_with_every_write(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        revisions = [await put(handle, a=b"x") for handle in (store, other, store, other)]
        assert revisions == sorted(set(revisions))

    async def test_a_refusal_writes_nothing_and_propagates(self, store: MetadataStore) -> None:
        revision = await put(store, a=b"1")

        def decide(values: Values) -> tuple[Writes, None]:
            raise RefusedDecision

        with pytest.raises(RefusedDecision):
            await store.transact(0, ["a"], decide)
        assert (await store.scan("a", "b")).revision == revision
        assert await put(store, a=b"2") > revision

    async def test_all_writes_land_together(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        keys = [f"pair/{i:02d}" for i in range(50)]
        stop = False

        async def write() -> None:
            for number in range(40):
                await store.transact(0, [], puts(dict.fromkeys(keys, b"%d" % number)))

        async def read() -> None:
            while not stop:
                scan = await other.scan("pair/", "pair0")
                assert len({entry.value for entry in scan.entries}) <= 1
                assert len({entry.revision for entry in scan.entries}) <= 1

        reading = asyncio.create_task(read())
        await write()
        stop = True
        await reading

    async def test_concurrent_transactions_lose_no_increment(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        async def count(handle: MetadataStore) -> list[int]:
            return [(await handle.transact(0, ["n"], increment("n"))).result for _ in range(10)]

        counted = await asyncio.gather(*(count(handle) for handle in (store, other) * 4))
        assert sorted(chain.from_iterable(counted)) == list(range(1, 81))

    async def test_deletes_and_range_deletes_come_before_puts(self, store: MetadataStore) -> None:
        await put(store, **{f"k/{i}": b"old" for i in range(8)}, single=b"", kept=b"")

        def decide(values: Values) -> tuple[Writes, None]:
            writes = Writes()
            writes.put("k/3", b"new")
            writes.delete("single")
            writes.delete("absent")
            writes.delete_range("k/2", "k/6")
            return writes, None

        await store.transact(0, [], decide)
        scan = await store.scan("a", "z")
        assert [(e.key, e.value) for e in scan.entries] == [
            ("k/0", b"old"),
            ("k/1", b"old"),
            ("k/3", b"new"),
            ("k/6", b"old"),
            ("k/7", b"old"),
            ("kept", b""),
        ]

    async def test_a_large_value_comes_back_whole(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        size = min(MIB, store.limits.value_bytes or MIB)
        value = bytes(range(256)) * (size // 256)
        start = (await store.scan("a", "b")).revision
        await put(store, large=value)
        entry = await other.get("large")
        assert entry is not None
        assert entry.value == value
        seen = await other.transact(0, ["large"], lambda v: (Writes(), v["large"]))
        assert seen.result == entry
        assert [change.value for change in await take(other.watch("large", start), 1)] == [value]

    async def test_limits_are_reported(self, store: MetadataStore) -> None:
        assert store.limits.operations is None or store.limits.operations >= 100
        assert store.limits.value_bytes is None or store.limits.value_bytes >= 2**16

    async def test_a_watch_starts_after_its_revision_and_knows_its_prefix(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        start = await put(store, **{"w/a": b"0"})
        first = await put(store, **{"w/a": b"1", "elsewhere": b"1"})
        second = await put(other, **{"w/b": b"2"})
        assert await take(other.watch("w/", start), 2) == [
            KeyChange("w/a", b"1", first),
            KeyChange("w/b", b"2", second),
        ]

    async def test_a_watch_delivers_deletes(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        start = await put(store, **{"w/a": b"", "w/b": b"", "w/c": b""})
        watch = other.watch("w/", start)
        taking = asyncio.create_task(take(watch, 3))
        await asyncio.sleep(0)

        def delete(values: Values) -> tuple[Writes, None]:
            return Writes(deletes=["w/b"], range_deletes=[("w/c", "w/d"), ("w/a", "w/b")]), None

        revision = (await store.transact(0, [], delete)).revision
        changes = await taking
        assert {change.key for change in changes} == {"w/a", "w/b", "w/c"}
        assert {(change.value, change.revision) for change in changes} == {(None, revision)}

    async def test_a_watch_misses_nothing_while_two_stores_write(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        start = (await store.scan("a", "b")).revision

        async def write(handle: MetadataStore, name: str) -> None:
            for number in range(60):
                await put(handle, **{f"w/{name}/{number:03d}": b"x"})

        watches = [handle.watch("w/", start) for handle in (store, other)]
        taking = [asyncio.create_task(take(watch, 120)) for watch in watches]
        await asyncio.gather(write(store, "a"), write(other, "b"))
        for changes in await asyncio.gather(*taking):
            revisions = [change.revision for change in changes]
            assert revisions == sorted(revisions)
            assert len({change.key for change in changes}) == 120

    async def test_a_watch_from_a_trimmed_revision_raises(
        self, backend: Backend, opened: Open, store: MetadataStore
    ) -> None:
        await put(store, **{"w/a": b"1"})
        for number in range(3):
            await put(store, **{"w/a": b"%d" % number})
        await backend.forget_changes()
        late = await opened()
        with pytest.raises(WatchTrimmed):
            await take(late.watch("w/", 0), 1)
        scan = await late.scan("w/", "w0")
        watch = late.watch("w/", scan.revision)
        revision = await put(store, **{"w/b": b"on"})
        assert await take(watch, 1) == [KeyChange("w/b", b"on", revision)]
