"""Running ``headwater table compact --follow`` as a child process of a broker.

A separate process keeps Spark out of the broker. It ends when its parent ends, for any reason.
"""

import asyncio
import logging
import os
from contextlib import suppress
from pathlib import Path

from headwater.app.workers import RestartDelay, command_line, end
from headwater.config import Settings
from headwater.errors import ConfigurationError

logger = logging.getLogger(__name__)

STOP_TIMEOUT = 20.0
"""Seconds to stop; then the process is killed, and the next one continues its jobs."""


def check_compaction(settings: Settings) -> None:
    """Raise ``ConfigurationError`` if a child process could not compact."""
    from headwater.pipeline.spark.session import check_spark

    for url in (settings.metadata_url, settings.objects_url):
        if url.startswith("memory:"):
            raise ConfigurationError(
                f"--compact needs stores that other processes can open; {url} is in this process"
            )
    check_spark()


async def keep_compacting(settings: Settings, config: Path | None, stop: asyncio.Event) -> None:
    """Run the process until ``stop`` is set; restart it if it dies."""
    loop = asyncio.get_running_loop()
    backoff = RestartDelay()
    while not stop.is_set():
        started = loop.time()
        code = await _run_once(settings, config, stop)
        if stop.is_set():
            return
        pause = backoff.after(loop.time() - started)
        logger.error("Compaction died", extra={"code": code, "restart_in_s": pause})
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)


async def _run_once(settings: Settings, config: Path | None, stop: asyncio.Event) -> int:
    options = ["--follow", "--supervised", *(["--config", str(config)] if config else [])]
    process = await asyncio.create_subprocess_exec(
        *command_line(["table", "compact", *options]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C signals only this process, which stops the child
        # URLs may contain passwords, and command lines are visible to all users of the host.
        env={
            **os.environ,
            "HEADWATER_DATA": settings.data,
            "HEADWATER_METADATA": settings.metadata_url,
            "HEADWATER_OBJECTS": settings.objects_url,
        },
    )
    stopping = asyncio.ensure_future(stop.wait())
    ended = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait([stopping, ended], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        await end(process, STOP_TIMEOUT)
    return process.returncode or 0
