"""The object store of a broker: opened, tried out, and what is told of its state."""

from concurrent.futures import Executor
from random import Random

from headwater.clock import Clock
from headwater.config import Settings
from headwater.objects.compatibility import check_compatibility
from headwater.objects.health import State, StoreHealth
from headwater.objects.store import ObjectStore
from headwater.objects.urls import open_objects


async def open_object_store(
    settings: Settings, *, clock: Clock, random: Random, executor: Executor, health: StoreHealth
) -> ObjectStore:
    """Open the store that the settings name; one on the network is tried out first.

    Raises ``ConfigurationError`` or ``StoreError`` where it cannot be used, and neither where
    it only does not answer at the moment.
    """
    url = settings.objects_url
    store = open_objects(url, clock=clock, random=random, executor=executor, health=health)
    if is_remote(url):
        try:
            await check_compatibility(store, url.partition("?")[0], random=random)
        except BaseException:
            await store.close()
            raise
    return store


def is_remote(objects_url: str) -> bool:
    """Whether requests go over the network, and are paid for one by one."""
    return not objects_url.startswith(("file:", "memory:"))


def unreadiness(health: StoreHealth, now: float) -> str | None:
    """Why the store keeps a broker from being ready; None where it does not."""
    found = health.summary(now)
    if found.state(health.limits) is not State.UNAVAILABLE:
        return None
    return f"the object store is unavailable: {found}"
