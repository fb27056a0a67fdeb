"""Opening the object store for a command."""

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from random import Random, SystemRandom
from typing import TYPE_CHECKING

from headwater.clock import SystemClock
from headwater.errors import ConfigurationError
from headwater.objects.store import ObjectStore
from headwater.objects.urls import local_directory, open_objects

if TYPE_CHECKING:
    from headwater.config import Settings

_THREADS = 4


@asynccontextmanager
async def objects_of(settings: "Settings") -> AsyncIterator[ObjectStore]:
    """The object store that the settings name."""
    rng = Random(SystemRandom().getrandbits(128))  # noqa: S311 - names and pauses
    with ThreadPoolExecutor(_THREADS, "headwater-io") as executor:
        objects = open_objects(
            settings.objects_url, clock=SystemClock(), random=rng, executor=executor
        )
        try:
            yield objects
        finally:
            await objects.close()


@asynccontextmanager
async def existing_objects(settings: "Settings") -> AsyncIterator[ObjectStore]:
    """As ``objects_of``. Raises ``ConfigurationError`` for a missing directory, which opening
    would create.
    """
    directory = local_directory(settings.objects_url)
    if directory is not None and not directory.is_dir():
        raise ConfigurationError(
            f"there is no object store at {directory}; name it with --data or --objects"
        )
    async with objects_of(settings) as objects:
        yield objects
