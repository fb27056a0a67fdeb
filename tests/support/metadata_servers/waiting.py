"""Waiting for a store that comes back."""

import asyncio

from headwater.errors import StoreUnavailable, UnknownOutcome
from headwater.meta.store import MetadataStore
from tests.support.meta.conformance import put


async def put_eventually(store: MetadataStore, **entries: bytes) -> int:
    async with asyncio.timeout(20):
        while True:
            try:
                return await put(store, **entries)
            except (StoreUnavailable, UnknownOutcome):
                await asyncio.sleep(0.05)
