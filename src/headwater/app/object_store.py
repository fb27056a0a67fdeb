"""A broker's object store: opening and probing it, waiting for it, and its readiness."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from random import Random
from typing import TypeVar

from headwater.clock import Clock
from headwater.config import Settings
from headwater.errors import (
    ObjectNotFound,
    ObjectStoreUnavailable,
    StoreError,
    StoreUnavailable,
    UnknownOutcome,
)
from headwater.log.restore.claim import OWNER
from headwater.objects.compatibility import check_compatibility
from headwater.objects.health import HealthState, StoreHealth, StoreSuspended
from headwater.objects.retrying import TransientFailure
from headwater.objects.store import DeletableObjects, ObjectStore
from headwater.objects.urls import is_remote, open_objects

logger = logging.getLogger(__name__)

T = TypeVar("T")

PAUSE = 1.0
"""Seconds between two attempts of a broker that waits for a store."""
OBJECT_STORE, METADATA_STORE = "object store", "metadata store"
TRANSIENT = (StoreUnavailable, UnknownOutcome)
"""Errors of a metadata store that may be over soon."""


async def open_object_store(
    settings: Settings, *, clock: Clock, random: Random, executor: Executor, health: StoreHealth
) -> DeletableObjects:
    """Open the store that the settings name, and probe a remote one.

    Waits for a store that does not answer. Raises ``ConfigurationError`` or ``StoreError`` if it
    cannot be used.
    """
    url = settings.objects_url
    store = open_objects(url, clock=clock, random=random, executor=executor, health=health)
    if is_remote(url):
        where = url.partition("?")[0]
        try:
            await retry_while_unavailable(lambda: check_compatibility(store, where, random=random))
        except BaseException:
            await store.close()
            raise
    return store


async def retry_while_unavailable(work: Callable[[], Awaitable[T]]) -> T:
    """Run ``work``, and repeat it while the object store throttles or does not answer."""
    while True:
        try:
            return await work()
        except (TransientFailure, StoreSuspended) as failure:
            logger.warning("Waiting for the object store", extra={"error": failure})
            await asyncio.sleep(PAUSE)


def absent_store(error: BaseException, *, embedded: bool) -> str | None:
    """The store to wait for after ``error``; None if waiting cannot help.

    An object store that refuses a request will refuse the next one, too. ``embedded`` says that
    the metadata store runs in this process.
    """
    if isinstance(error, TransientFailure | StoreSuspended):
        return OBJECT_STORE
    if embedded or isinstance(error, ObjectStoreUnavailable) or not isinstance(error, TRANSIENT):
        return None
    return METADATA_STORE


async def unreadiness(store: ObjectStore, health: StoreHealth, seconds: float) -> str | None:
    """Why a broker is not ready because of the store; None if the store works.

    If the last requests all failed, or there were none, this reads an object that every cluster
    has. The store has ``seconds`` to answer.
    """
    now = asyncio.get_running_loop().time
    found = health.summary(now())
    if found.state(health.limits) is HealthState.UNAVAILABLE:
        return f"the object store is unavailable: {found}"
    if health.is_proven(now()):
        return None
    try:
        async with asyncio.timeout(seconds):
            await store.get(OWNER)
    except ObjectNotFound:
        return None
    except (TimeoutError, StoreError) as error:
        return f"the object store does not answer: {str(error) or 'no answer in time'}"
    return None
