"""The tables in PostgreSQL: who makes them, what is refused, and what SQL shows of them."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import (
    ConfigurationError,
    StoreUnavailable,
    UnknownFormat,
)
from headwater.meta.postgres import PostgresStore
from headwater.meta.postgres.schema import migrations
from headwater.meta.store import KeyChange
from tests.support.meta.conformance import put, take
from tests.support.metadata_servers.postgres import PostgresBackend, PostgresServers, opened


@pytest.fixture
def backend(postgres: PostgresServers, names: Iterator[int]) -> PostgresBackend:
    return postgres.backend(f"only-{next(names)}")


async def test_brokers_that_start_at_once_make_the_tables_once(backend: PostgresBackend) -> None:
    stores = await asyncio.gather(*(backend.open() for _ in range(8)))
    applied = await backend.sql("SELECT number, name FROM migration ORDER BY number")
    assert [tuple(row) for row in applied] == [
        (number, name) for number, (name, _) in migrations().items()
    ]
    for store in stores:
        await store.close()


async def test_a_newer_version_is_refused_with_one_line(backend: PostgresBackend) -> None:
    async with opened(backend.url):
        pass
    await backend.sql("INSERT INTO migration (number, name) VALUES (999, 'later')")
    with pytest.raises(UnknownFormat, match=r"version 999.*or a later one") as refused:
        await backend.open()
    assert "\n" not in str(refused.value)


async def test_another_programs_tables_are_left_alone(backend: PostgresBackend) -> None:
    await backend.sql(f"CREATE SCHEMA {backend.schema}")
    await backend.sql("CREATE TABLE entry (theirs integer)")
    with pytest.raises(ConfigurationError, match=r"tables of another program.*\?schema="):
        await backend.open()
    tables = await backend.sql(
        "SELECT tablename FROM pg_tables WHERE schemaname = $1", backend.schema
    )
    assert [row[0] for row in tables] == ["entry"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgres://postgres@127.0.0.1:{port}/absent", "absent"),
        ("postgres://nobody@127.0.0.1:{port}/postgres", "nobody"),
        ("postgres://postgres@127.0.0.1:{port}/postgres?schema=No-Name", "No-Name"),
    ],
)
async def test_a_wrong_url_is_named_in_one_line(
    postgres: PostgresServers, url: str, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        await PostgresStore.open(url.format(port=postgres.server.port))
    assert "\n" not in str(refused.value)


async def test_an_absent_server_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/"):
        await PostgresStore.open("postgres://me:secret@127.0.0.1:1/postgres")


async def test_clusters_share_a_database_by_schema(
    postgres: PostgresServers, names: Iterator[int]
) -> None:
    one, two = (postgres.backend(f"shared-{next(names)}") for _ in range(2))
    async with opened(one.url) as first, opened(two.url) as second:
        await put(first, a=b"1")
        watch = second.watch("", 0)
        await put(second, b=b"2")
        assert await second.get("a") is None
        assert [change.key for change in await take(watch, 1)] == ["b"]


async def test_old_changes_are_trimmed_by_number_and_by_size(backend: PostgresBackend) -> None:
    async with opened(backend.url) as store:
        for _ in range(20):
            await put(store, k=bytes(1000))
        assert (await backend.sql("SELECT trim_changes(10, 1000000)"))[0][0] == 10
        assert (await backend.sql("SELECT trim_changes(10, 5000)"))[0][0] == 5
        assert (await backend.sql("SELECT trim_changes(0, 1)"))[0][0] == 4
        assert (await backend.sql("SELECT max(revision) FROM change"))[0][0] == 20
        last = [KeyChange("k", bytes(1000), 20)]
        assert await take(store.watch("k", 19), 1) == last


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(-1e6, 1e6)
    | st.floats(-1e6, 1e6, width=32)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40),
    lambda inner: st.lists(inner, max_size=18) | st.dictionaries(st.text("abc", max_size=3), inner),
    max_leaves=20,
)


def test_stored_values_read_as_json_in_sql(postgres: PostgresServers, names: Iterator[int]) -> None:
    backend = postgres.backend(f"json-{next(names)}")

    @settings(max_examples=10, deadline=None)
    @given(found=st.lists(st.dictionaries(st.text("abc", max_size=3), values, max_size=18)))
    def run(found: list[dict[str, Any]]) -> None:
        assert asyncio.run(as_json([msgspec.msgpack.encode(each) for each in found])) == found

    async def as_json(stored: list[bytes]) -> list[Any]:
        rows = await backend.sql(
            "SELECT as_json(value) FROM unnest($1::bytea[]) WITH ORDINALITY AS u (value, place)"
            " ORDER BY place",
            stored,
        )
        return [msgspec.json.decode(row[0]) for row in rows]

    async def prepare() -> None:
        async with opened(backend.url):
            pass

    asyncio.run(prepare())
    run()
    odd = [b"", b"orders", b"\xff\xfe", b"\x81\xa1", msgspec.msgpack.encode({"b": b"\1\2"})]
    assert asyncio.run(as_json(odd)) == ["", "orders", "\\xfffe", "\\x81a1", {"b": "\\x0102"}]
