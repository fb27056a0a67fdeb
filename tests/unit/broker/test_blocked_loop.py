"""A broker keeps its registration and its groups while its event loop is blocked."""

import asyncio
from pathlib import Path

from headwater.clock import SystemClock
from headwater.groups.group import GROUPS
from headwater.meta import keys
from headwater.meta.sqlite import SqliteStore
from headwater.meta.store import Entry, MetadataStore, prefix_end
from tests.support.broker.serving import serving
from tests.support.meta.conformance_sessions import hold_loop


async def leases(store: MetadataStore) -> list[Entry]:
    """The broker's registration, and the leases of its shards."""
    found = await store.scan(keys.BROKERS, prefix_end(keys.BROKERS))
    held = await store.scan(keys.COORDINATORS, prefix_end(keys.COORDINATORS))
    return found.entries + held.entries


async def test_a_blocked_loop_costs_a_broker_neither_its_registration_nor_its_shards(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, **{"broker.session_timeout_s": 2}):
        store = await SqliteStore.open(tmp_path / "metadata.db", SystemClock())
        try:
            async with asyncio.timeout(20):
                while len(before := await leases(store)) < 1 + GROUPS.count:
                    await asyncio.sleep(0.1)
            hold_loop(4)
            await asyncio.sleep(2.5)  # what would have been lost is noticed
            assert await leases(store) == before
        finally:
            await store.close()
