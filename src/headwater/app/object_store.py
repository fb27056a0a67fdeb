"""The object store of a broker: opened, tried out, waited for, and described when it fails."""

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
"""Seconds between two attempts of a broker that waits for its stores."""
AWAY = (StoreUnavailable, UnknownOutcome)
"""What a metadata store raises that may be back in a moment."""


async def open_object_store(
    settings: Settings, *, clock: Clock, random: Random, executor: Executor, health: StoreHealth
) -> DeletableObjects:
    """Open the store that the settings name; one on the network is tried out first.

    Waits for a store that does not answer. Raises ``ConfigurationError`` or ``StoreError`` where
    it cannot be used.
    """
    url = settings.objects_url
    store = open_objects(url, clock=clock, random=random, executor=executor, health=health)
    if is_remote(url):
        where = url.partition("?")[0]
        try:
            await patiently(lambda: check_compatibility(store, where, random=random))
        except BaseException:
            await store.close()
            raise
    return store


async def patiently(work: Callable[[], Awaitable[T]]) -> T:
    """Do what a broker cannot start without, as soon as the object store answers.

    A store that throttles us or is down is no reason to give up: it comes back.
    """
    while True:
        try:
            return await work()
        except (TransientFailure, StoreSuspended) as failure:
            logger.warning("Waiting for the object store: %s", failure)
            await asyncio.sleep(PAUSE)


def absent_store(error: BaseException, *, embedded: bool) -> str | None:
    """The store that a start waits for after ``error``; None if waiting cannot help.

    An object store that refuses a request refuses the next one too. ``embedded``: the metadata is
    in this process.
    """
    if isinstance(error, TransientFailure | StoreSuspended):
        return "object store"
    if embedded or isinstance(error, ObjectStoreUnavailable) or not isinstance(error, AWAY):
        return None
    return "metadata store"


async def unreadiness(store: ObjectStore, health: StoreHealth, seconds: float) -> str | None:
    """Why the store keeps a broker from being ready; None where it does not.

    A broker whose last requests all failed, or that sent none, asks it for a mark that every
    cluster has; the store has ``seconds`` to answer.
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
