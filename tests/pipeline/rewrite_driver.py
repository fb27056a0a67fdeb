"""A rewrite in a process of its own: ``python -m tests.pipeline.rewrite_driver DATA STEP TOPIC``.

It kills itself when a job comes past STEP.
"""

import asyncio
import sys
from pathlib import Path

from headwater.pipeline.place import open_place
from headwater.tables.settings import TableSettings
from tests.pipeline.cluster import address_of, make_compactor
from tests.pipeline.driver import Deadly


async def main(data: Path, step: str, topic: str) -> None:
    async with open_place(address_of(data), TableSettings()) as place:
        compactor = make_compactor(place, watcher=Deadly(step))
        await compactor.rewrite([topic])
        compactor.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
