"""Random operations on each backend give what they give on a plain dict."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.system.metadata.conftest import BACKENDS, BackendServers
from tests.unit.meta.test_model import Range, Transact, check, ranges, transacts


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_a_store_behaves_as_a_dict(
    servers: dict[str, BackendServers], names: Iterator[int], name: str
) -> None:
    server = servers[name]

    @settings(max_examples=40, deadline=None)
    @given(operations=st.lists(transacts | ranges, max_size=12))
    def run(operations: list[Transact | Range]) -> None:
        asyncio.run(main(operations))

    async def main(operations: list[Transact | Range]) -> None:
        store = await server.backend(f"model-{next(names)}").open()
        try:
            await check(store, operations)
        finally:
            await store.close()

    run()
