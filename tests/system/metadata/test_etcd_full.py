"""What a transaction is said to have come to where etcd says that it is full."""

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.errors import StorageFull, StoreUnavailable, UnknownOutcome
from headwater.meta.etcd import EtcdStore
from headwater.meta.store import Writes
from tests.support.meta.conformance import put
from tests.support.metadata_servers.etcd import opened
from tests.system.metadata.conftest import BackendServers


async def test_full_and_then_silent_is_unknown(
    servers: dict[str, BackendServers], names: Iterator[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """etcd applied it, said that it is full, and could not be asked whether it did."""
    async with opened(servers["etcd"].backend(f"silent-{next(names)}").url) as store:
        assert isinstance(store, EtcdStore)
        await store.transact(0, ["z"], lambda _values: (Writes(), None))
        write = store._members.write

        async def applied_and_full(method: Any, request: Any) -> Any:
            await write(method, request)
            raise StorageFull("database space exceeded")

        async def silent(_method: Any, _request: Any) -> Any:
            raise StoreUnavailable("no answer")

        with monkeypatch.context() as patched:
            patched.setattr(store._members, "write", applied_and_full)
            patched.setattr(store._members, "read", silent)
            with pytest.raises(UnknownOutcome):
                await store.transact(0, ["z"], lambda _values: (Writes(puts={"z": b"1"}), None))
        assert await store.get("z") is not None


async def test_a_refused_blind_put_of_the_same_value_is_not_taken_for_done(
    servers: dict[str, BackendServers], names: Iterator[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(servers["etcd"].backend(f"blind-{next(names)}").url) as store:
        assert isinstance(store, EtcdStore)
        await put(store, same=b"v", gone=b"v")

        async def full(_method: Any, _request: Any) -> Any:
            raise StorageFull("database space exceeded")

        with monkeypatch.context() as patched:
            patched.setattr(store._members, "write", full)
            with pytest.raises((StorageFull, UnknownOutcome)):
                await store.transact(
                    0, [], lambda _values: (Writes(puts={"same": b"v"}, deletes=["gone"]), None)
                )
