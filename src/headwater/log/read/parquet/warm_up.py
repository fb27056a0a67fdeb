"""Loads the libraries for Parquet files before a consumer waits for them.

Arrow and the compiled kernels take seconds to import. A broker without tables never loads them. If
the log has Parquet files, or when the first job begins, they are loaded in the background.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from headwater.errors import KafkaError, StoreError, WatchTrimmed
from headwater.log.jobs.jobs import TABLES
from headwater.meta import keys
from headwater.meta.store import MetadataStore, prefix_end

logger = logging.getLogger(__name__)

RETRY = 5.0


async def warm_up_for_tables(meta: MetadataStore, warm_up: Callable[[], Awaitable[None]]) -> None:
    """Call ``warm_up`` once the log has files of a table, or a job is about to write some.

    Its errors are ignored: if the libraries are missing, fetches report that.
    """
    await _until_needed(meta)
    with contextlib.suppress(KafkaError):
        await warm_up()


async def _until_needed(meta: MetadataStore) -> None:
    files = f"{keys.objects(0)}{TABLES}"
    while True:
        try:
            found = await meta.scan(files, prefix_end(files), limit=1)
            if found.entries:
                return
            async for _ in meta.watch(keys.jobs(0), found.revision):
                return
        except WatchTrimmed:
            continue
        except (StoreError, KafkaError) as error:
            logger.warning("Cannot follow jobs", extra={"error": error})
            await asyncio.sleep(RETRY)
