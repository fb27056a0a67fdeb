"""Running the pipeline from a command: store locations, and signals."""

import asyncio
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from headwater.config import Settings
    from headwater.pipeline.cluster_stores import StoreLocation

T = TypeVar("T")


def location_of(settings: "Settings") -> "StoreLocation":
    from headwater.pipeline.cluster_stores import StoreLocation

    return StoreLocation(
        data=Path(settings.data),
        metadata_url=settings.metadata_url,
        objects_url=settings.objects_url,
    )


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine. SIGINT or SIGTERM cancels it and ends the process with code 130."""

    async def stoppable() -> T:
        from headwater.app.signals import stop_on_signals

        task = asyncio.current_task()
        assert task is not None
        stop_on_signals(partial(_cancel, task))
        return await work

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        sys.exit(130)


def _cancel(task: "asyncio.Task[Any]") -> None:
    task.cancel()
