"""Compaction beside a broker: ``headwater table compact --follow``, kept running.

It is a process of its own, so that nothing of Spark is in the broker's, and it ends with the
process that started it, however that ends.
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
"""One that has not ended by then is killed; another takes up its jobs."""


def check_compaction(settings: Settings) -> None:
    """Raise ``ConfigurationError`` where another process could not do it."""
    from headwater.pipeline.spark.session import check_spark

    for url in (settings.metadata_url, settings.objects_url):
        if url.startswith("memory:"):
            raise ConfigurationError(
                f"--compact needs stores that another process can open, and {url} is not one"
            )
    check_spark()


async def keep_compacting(settings: Settings, config: Path | None, stop: asyncio.Event) -> None:
    """Run it until ``stop`` is set; one that dies is started again."""
    loop = asyncio.get_running_loop()
    backoff = RestartDelay()
    while not stop.is_set():
        started = loop.time()
        code = await _live(settings, config, stop)
        if stop.is_set():
            return
        pause = backoff.after(loop.time() - started)
        logger.error("Compaction ended", extra={"code": code, "restart_in_s": pause})
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)


async def _live(settings: Settings, config: Path | None, stop: asyncio.Event) -> int:
    options = ["--follow", "--supervised", *(["--config", str(config)] if config else [])]
    process = await asyncio.create_subprocess_exec(
        *command_line(["table", "compact", *options]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # a terminal's Ctrl-C reaches it through us alone
        # URLs may hold passwords, which every user of the machine sees in a command line.
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
