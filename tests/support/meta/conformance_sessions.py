"""What every metadata store's sessions must do, as tests that a backend's test class inherits."""

import asyncio
import time

import pytest

from headwater.errors import SessionLost
from headwater.meta.store import MetadataStore
from tests.support.meta.conformance import Backend, bind, put, take


class SessionConformance:
    """Beside ``MetadataStoreConformance``, whose fixtures it uses."""

    async def test_closing_a_session_deletes_its_keys(
        self, store: MetadataStore, other: MetadataStore
    ) -> None:
        session = await store.session(ttl=20)
        bound = await bind(store, session, "e/a")
        await put(store, **{"e/b": b""})
        assert not session.lost
        await session.close()
        assert session.lost
        assert [e.key for e in (await other.scan("e/", "e0")).entries] == ["e/b"]
        changes = await take(other.watch("e/a", bound.revision), 1)
        assert changes[0].value is None

    async def test_a_session_that_is_renewed_outlives_its_ttl(self, store: MetadataStore) -> None:
        session = await store.session(ttl=1)
        await bind(store, session, "e/a")
        await asyncio.sleep(1.6)
        assert not session.lost
        assert await store.get("e/a") is not None
        await session.close()

    async def test_a_session_says_until_when_it_lives(
        self, store: MetadataStore, backend: Backend
    ) -> None:
        session = await store.session(ttl=1)
        assert 0 < session.remaining <= 1
        await asyncio.sleep(1)
        assert 0 < session.remaining <= 1
        await bind(store, session, "e/a")
        await backend.abandon(session)
        await asyncio.sleep(session.remaining - 0.3)
        assert await store.get("e/a") is not None
        await session.close()
        assert session.remaining < 0

    async def test_a_session_that_is_not_renewed_ends_with_its_keys(
        self, backend: Backend, store: MetadataStore, other: MetadataStore
    ) -> None:
        session = await store.session(ttl=1)
        bound = await bind(store, session, "e/a")
        watch = other.watch("e/", bound.revision)
        await backend.abandon(session)
        assert [(c.key, c.value) for c in await take(watch, 1)] == [("e/a", None)]
        assert session.lost
        with pytest.raises(SessionLost):
            await bind(store, session, "e/b")
        assert await store.get("e/b") is None

    async def test_a_plain_put_frees_a_key_from_its_session(self, store: MetadataStore) -> None:
        session = await store.session(ttl=20)
        await bind(store, session, "e/a")
        await put(store, **{"e/a": b"mine"})
        await session.close()
        assert await store.get("e/a") is not None

    async def test_a_key_moves_to_the_session_that_wrote_it_last(
        self, store: MetadataStore
    ) -> None:
        first, second = await store.session(ttl=20), await store.session(ttl=20)
        await bind(store, first, "e/a")
        await bind(store, second, "e/a")
        await first.close()
        assert await store.get("e/a") is not None
        await second.close()
        assert await store.get("e/a") is None


class SharedSessionConformance(SessionConformance):
    """For stores outside of the process: its leases do not depend on its event loop."""

    async def test_a_session_is_renewed_while_a_request_holds_the_event_loop(
        self, store: MetadataStore
    ) -> None:
        session = await store.session(ttl=2)
        bound = await bind(store, session, "e/a")
        hold_loop(4)
        assert not session.lost
        entry = await store.get("e/a")
        assert entry is not None
        assert entry.revision == bound.revision
        await bind(store, session, "e/b")
        await session.close()


def hold_loop(seconds: float) -> None:
    """What a request does that is far too large: Python code without a pause."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))
