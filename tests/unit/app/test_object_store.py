"""How a broker waits for its object store at start, and reports it as not ready."""

import asyncio
import logging

import pytest

from headwater.app import object_store
from headwater.app.object_store import absent_store, retry_while_unavailable, unreadiness
from headwater.clock import SystemClock
from headwater.errors import ConfigurationError, ObjectStoreUnavailable, StoreUnavailable
from headwater.objects.health import StoreHealth, StoreSuspended
from headwater.objects.memory import MemoryObjects
from headwater.objects.retrying import TransientFailure


@pytest.mark.parametrize("error", [TransientFailure("503 SlowDown"), StoreSuspended("later")])
async def test_a_store_that_is_throttled_at_start_is_waited_for(
    error: StoreUnavailable, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "PAUSE", 0.0)
    failures = iter([error] * 50)

    async def work() -> None:
        await asyncio.sleep(0)
        if (failure := next(failures, None)) is not None:
            raise failure

    with caplog.at_level(logging.WARNING):
        await retry_while_unavailable(work)
    assert caplog.text.count("Waiting for the object store") == 50


async def test_a_store_that_refuses_us_is_not_waited_for() -> None:
    async def work() -> None:
        raise StoreUnavailable("access is denied")

    with pytest.raises(StoreUnavailable, match="access is denied"):
        await retry_while_unavailable(work)


@pytest.mark.parametrize(
    ("error", "embedded", "store"),
    [
        (StoreUnavailable("no answer"), False, "metadata store"),
        (StoreUnavailable("locked"), True, None),
        (TransientFailure("503 SlowDown"), False, "object store"),
        (StoreSuspended("later"), True, "object store"),
        (ObjectStoreUnavailable("access is denied"), False, None),
        (ConfigurationError("wrong"), False, None),
    ],
)
def test_a_start_waits_for_a_store_that_may_come_back_and_names_it(
    error: Exception, *, embedded: bool, store: str | None
) -> None:
    assert absent_store(error, embedded=embedded) == store


class Silent(MemoryObjects):
    """A store that fails every read while it is ``down``; ``reads`` counts them."""

    down = False
    reads = 0

    async def get(self, key: str) -> bytearray:
        self.reads += 1
        if self.down:
            raise TransientFailure("no answer")
        return await super().get(key)


async def test_an_idle_broker_asks_its_store_before_it_says_that_it_is_ready() -> None:
    store, health = Silent(clock=SystemClock()), StoreHealth()
    now = asyncio.get_running_loop().time
    assert await unreadiness(store, health, 1.0) is None
    store.down = True
    for _ in range(3):
        health.end(health.begin(now()), now(), failed=True)
        reason = await unreadiness(store, health, 1.0)
        assert reason == "the object store does not answer: no answer"
    health.end(health.begin(now()), now(), failed=False)
    assert await unreadiness(store, health, 1.0) is None
    assert store.reads == 4
