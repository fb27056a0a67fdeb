"""A rewrite or a cleaning in a process of its own, which kills itself at a named step.

``python -m tests.pipeline.rewrite_driver DATA STEP METHOD TOPIC``: METHOD is one of the
``Compactor``'s.
"""

import asyncio
import sys
from pathlib import Path

from headwater.pipeline.place import open_place
from headwater.tables.settings import TableSettings
from tests.pipeline.cluster import address_of, make_compactor
from tests.pipeline.driver import Deadly


async def main(data: Path, step: str, method: str, topic: str) -> None:
    async with open_place(address_of(data), TableSettings()) as place:
        compactor = make_compactor(place, watcher=Deadly(step))
        await getattr(compactor, method)([topic])
        compactor.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:5]))
