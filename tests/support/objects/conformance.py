"""What every object store must do; ``test_conformance.py`` runs it over each of them."""

import asyncio
from random import Random

import pytest

from headwater.errors import ObjectNotFound, StoreUnavailable
from headwater.objects.object_keys import MAX_SEGMENT_LENGTH
from headwater.objects.store import DeletableObjects

ODD_KEYS = [
    "x",
    "with space",
    "a/very/deep/path/indeed.wo",
    "partition=0/00000-1.parquet",
    "t/.hidden",
    "t/...",
    "t/-dash",
    "t/plus+comma,colon:at@bang!(paren)",
    "UPPER/lower",
    "z/" + "n" * MAX_SEGMENT_LENGTH,
]
BAD_KEYS = [
    "",
    "/",
    "/etc/passwd",
    "../outside",
    "a/../../outside",
    "a/..",
    "./a",
    "a//b",
    "a/",
    "nul\0byte",
    "line\nbreak",
    "per%20cent",
    "star*",
    "back\\slash",
    "ümlaut",
    ".tmp/x",
    "n" * (MAX_SEGMENT_LENGTH + 1),
    "/".join(["n" * 200] * 6),
]


async def keys(store: DeletableObjects, prefix: str = "") -> list[str]:
    return [info.key async for info in store.list(prefix)]


class ObjectStoreConformance:
    async def test_an_object_reads_back_as_it_was_put(self, store: DeletableObjects) -> None:
        await store.put("wal/1.wo", [b"head", bytearray(b"er"), memoryview(b" and body")[1:]])
        assert await store.get("wal/1.wo") == b"headerand body"

    async def test_a_read_gives_the_caller_a_buffer_of_its_own(
        self, store: DeletableObjects
    ) -> None:
        await store.put("a", [b"12345"])
        for first in (await store.get("a"), await store.get_range("a", 0, 5)):
            assert type(first) is bytearray
            first[:] = b"xxxxx"
        assert await store.get("a") == b"12345"

    async def test_thousands_of_parts_make_one_object(self, store: DeletableObjects) -> None:
        random = Random(1)
        parts = [random.randbytes(random.choice((0, 1, 100))) for _ in range(5_000)]
        await store.put("many", parts)
        assert await store.get("many") == b"".join(parts)

    async def test_hundreds_of_large_parts_make_one_object(self, store: DeletableObjects) -> None:
        parts = [b"%d," % number * (150_000 if number % 30 == 0 else 5) for number in range(300)]
        await store.put("large", parts)
        assert await store.get("large") == b"".join(parts)

    @pytest.mark.parametrize("parts", [[], [b""], [b"", bytearray(), memoryview(b"")]])
    async def test_an_empty_object_is_an_object(
        self, store: DeletableObjects, parts: list[bytes]
    ) -> None:
        await store.put("empty", parts)
        assert await store.get("empty") == b""
        assert await store.get_range("empty", 0, 0) == b""
        assert [(info.key, info.size) async for info in store.list("")] == [("empty", 0)]

    async def test_a_large_object_reads_back_whole(self, store: DeletableObjects) -> None:
        data = Random(2).randbytes(9 << 20)
        await store.put("large", [memoryview(data)[: 5 << 20], memoryview(data)[5 << 20 :]])
        assert await store.get("large") == data

    async def test_a_repeated_put_is_no_error(self, store: DeletableObjects) -> None:
        await store.put("a/b", [b"same"])
        await store.put("a/b", [b"same"])
        assert await store.get("a/b") == b"same"

    async def test_a_put_never_replaces_an_object(self, store: DeletableObjects) -> None:
        await store.put("a/b", [b"first"])
        await store.put("a/b", [b"other"])
        assert await store.get("a/b") == b"first"

    async def test_concurrent_puts_of_one_key_leave_one_whole_object(
        self, store: DeletableObjects
    ) -> None:
        contents = [bytes([number]) * 100_000 for number in range(8)]
        async with asyncio.TaskGroup() as group:
            for content in contents:
                group.create_task(store.put("fought/over", [content]))
        assert bytes(await store.get("fought/over")) in contents
        assert await keys(store) == ["fought/over"]

    async def test_concurrent_puts_of_many_keys_all_land(self, store: DeletableObjects) -> None:
        wanted = sorted(f"d{number % 3}/{number:03}" for number in range(40))
        async with asyncio.TaskGroup() as group:
            for key in wanted:
                group.create_task(store.put(key, [key.encode()]))
        assert await keys(store) == wanted
        for key in wanted:
            assert await store.get(key) == key.encode()

    @pytest.mark.parametrize(
        ("start", "length"), [(0, 10), (0, 1), (3, 4), (9, 1), (10, 0), (4, 0)]
    )
    async def test_a_range_reads_exactly_its_bytes(
        self, store: DeletableObjects, start: int, length: int
    ) -> None:
        await store.put("r", [b"01234", b"56789"])
        assert await store.get_range("r", start, length) == b"0123456789"[start : start + length]

    @pytest.mark.parametrize(("start", "length"), [(0, 11), (9, 2), (10, 1), (100, 5), (11, 0)])
    async def test_a_range_past_the_end_is_an_error_and_never_short(
        self, store: DeletableObjects, start: int, length: int
    ) -> None:
        await store.put("r", [b"0123456789"])
        with pytest.raises(StoreUnavailable):
            await store.get_range("r", start, length)

    @pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, -1)])
    async def test_a_negative_range_is_refused(
        self, store: DeletableObjects, start: int, length: int
    ) -> None:
        await store.put("r", [b"0123456789"])
        with pytest.raises(ValueError, match="cannot exist"):
            await store.get_range("r", start, length)

    async def test_what_is_absent_is_not_found(self, store: DeletableObjects) -> None:
        await store.put("here/is", [b"1"])
        for key in ("absent", "here/absent", "here", "here/is/not"):
            with pytest.raises(ObjectNotFound):
                await store.get(key)
            with pytest.raises(ObjectNotFound):
                await store.get_range(key, 0, 1)
            with pytest.raises(ObjectNotFound):
                await store.get_range(key, 0, 0)

    async def test_a_deleted_object_is_gone(self, store: DeletableObjects) -> None:
        await store.put("a/b/c", [b"1"])
        await store.put("a/d", [b"1"])
        await store.delete("a/b/c")
        with pytest.raises(ObjectNotFound):
            await store.get("a/b/c")
        assert await keys(store) == ["a/d"]

    async def test_deleting_what_is_absent_is_no_error(self, store: DeletableObjects) -> None:
        await store.put("a/b", [b"1"])
        for key in ("absent", "deep/absent", "a", "a/b/c"):
            await store.delete(key)
        assert await keys(store) == ["a/b"]

    async def test_a_directory_serves_again_after_its_last_object_went(
        self, store: DeletableObjects
    ) -> None:
        for _ in range(3):
            await store.put("a/b/c", [b"1"])
            await store.delete("a/b/c")
        await store.put("a/b/d", [b"1"])
        assert await keys(store) == ["a/b/d"]

    async def test_a_listing_is_in_key_order(self, store: DeletableObjects) -> None:
        made = ["b", "a/z", "a-b", "a/b/c", "a/b.c", "a0", "A", "a/b-c/d", "a.b/c"]
        for key in made:
            await store.put(key, [b"1"])
        assert await keys(store) == sorted(made)

    @pytest.mark.parametrize(
        ("prefix", "expected"),
        [
            ("wal/", ["wal/1/a", "wal/1/b", "wal/10/a", "wal/2/a"]),
            ("wal/1", ["wal/1/a", "wal/1/b", "wal/10/a"]),
            ("wal/1/", ["wal/1/a", "wal/1/b"]),
            ("wal/1/b", ["wal/1/b"]),
            ("w", ["wal/1/a", "wal/1/b", "wal/10/a", "wal/2/a", "wall"]),
            ("none/", []),
            ("wal/1/a/", []),
            ("wal/9", []),
        ],
    )
    async def test_a_prefix_need_not_end_at_a_segment(
        self, store: DeletableObjects, prefix: str, expected: list[str]
    ) -> None:
        for key in ("wal/1/a", "wal/1/b", "wal/10/a", "wal/2/a", "wall", "other/x"):
            await store.put(key, [b"1"])
        assert await keys(store, prefix) == expected

    async def test_a_listing_tells_size_and_time(self, store: DeletableObjects) -> None:
        await store.put("a/b", [b"123"])
        [info] = [info async for info in store.list("a/")]
        assert info.size == 3
        assert info.modified_ms > 1_600_000_000_000

    async def test_objects_may_go_while_they_are_listed(self, store: DeletableObjects) -> None:
        for number in range(6):
            await store.put(f"d/{number}", [b"1"])
        seen = []
        async for info in store.list("d/"):
            seen.append(info.key)
            await store.delete(info.key)
        assert seen[0] == "d/0"
        assert await keys(store) == []

    async def test_odd_keys_are_kept_as_they_are(self, store: DeletableObjects) -> None:
        for key in ODD_KEYS:
            await store.put(key, [key.encode()])
        for key in ODD_KEYS:
            assert await store.get(key) == key.encode()
        assert await keys(store) == sorted(ODD_KEYS)
        for key in ODD_KEYS:
            await store.delete(key)
        assert await keys(store) == []

    @pytest.mark.parametrize("key", BAD_KEYS)
    async def test_illegal_keys_are_refused_everywhere(
        self, store: DeletableObjects, key: str
    ) -> None:
        for call in (
            lambda: store.put(key, [b"1"]),
            lambda: store.get(key),
            lambda: store.get_range(key, 0, 1),
            lambda: store.delete(key),
        ):
            with pytest.raises(ValueError, match="legal object key"):
                await call()

    @pytest.mark.parametrize("prefix", ["../", "/", "/etc/", "a/../../", ".tmp/"])
    async def test_a_prefix_cannot_leave_the_store(
        self, store: DeletableObjects, prefix: str
    ) -> None:
        with pytest.raises(ValueError, match="legal object key"):
            await keys(store, prefix)

    async def test_traffic_counts_requests_and_bytes(self, store: DeletableObjects) -> None:
        await store.put("a", [b"12", b"345"])
        await store.get("a")
        await store.get_range("a", 1, 2)
        await keys(store)
        await store.delete("a")
        traffic = store.traffic
        assert (traffic.puts, traffic.gets, traffic.deletes) == (1, 2, 1)
        assert traffic.lists >= 1
        assert (traffic.bytes_written, traffic.bytes_read) == (5, 7)
        assert (traffic.errors, traffic.retries) == (0, 0)

    async def test_the_store_has_a_name(self, store: DeletableObjects) -> None:
        assert store.id

    async def test_a_growing_object_keeps_every_append_where_it_said(
        self, store: DeletableObjects
    ) -> None:
        growing = store.grow("wal/growing.wo")
        if growing is None:
            return  # this store's objects are written whole, and it says so
        first = await growing.append([b"one", b"two"])
        others = await asyncio.gather(*(growing.append([b"%03d" % n]) for n in range(20)))
        assert first == 0
        assert growing.size == 6 + 60
        assert await store.get_range(growing.key, 0, 6) == b"onetwo"
        for number, position in enumerate(others):
            assert await store.get_range(growing.key, position, 3) == b"%03d" % number
        await growing.close()
        assert len(await store.get(growing.key)) == 66
        assert await keys(store, "wal/") == ["wal/growing.wo"]

    async def test_appends_under_way_outlast_the_close(self, store: DeletableObjects) -> None:
        growing = store.grow("wal/growing.wo")
        if growing is None:
            return  # this store's objects are written whole, and it says so
        await growing.append([b"first"])
        under_way = [asyncio.ensure_future(growing.append([b"%04d" % n * 1000])) for n in range(50)]
        await asyncio.sleep(0)
        await growing.close()
        for number, position in enumerate(await asyncio.gather(*under_way)):
            assert await store.get_range(growing.key, position, 4) == b"%04d" % number
