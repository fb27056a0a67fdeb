"""Producer ids: none is given twice, whichever broker is asked."""

import asyncio
from random import Random

from headwater.log.engine import open_cluster
from headwater.meta.memory import MemoryStore
from headwater.producer_ids import BLOCK, StoredProducerIds


async def test_producer_ids_are_never_given_twice() -> None:
    meta = MemoryStore()
    cluster = await open_cluster(meta, Random(1))
    one, two = StoredProducerIds(meta, cluster), StoredProducerIds(meta, cluster)
    given = [await ids.allocate() for ids in [one, two] * 600]
    assert len(set(given)) == len(given)
    await meta.close()


async def test_requests_of_one_moment_share_a_block() -> None:
    meta = MemoryStore()
    ids = StoredProducerIds(meta, await open_cluster(meta, Random(1)))
    given = await asyncio.gather(*(ids.allocate() for _ in range(BLOCK)))
    assert sorted(given) == list(range(BLOCK))
    await meta.close()
