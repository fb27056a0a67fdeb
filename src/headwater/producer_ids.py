"""Producer ids out of the metadata store's counter."""

import asyncio

from headwater.cluster_record import ClusterRecord, check_same_cluster
from headwater.errors import ConfigurationError, KafkaStorageError
from headwater.meta import keys
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.transactions import transact
from headwater.meta.values import NextNumber, decode, encode

BLOCK = 1000
"""Producer ids are taken from the store in blocks; those of a block not used are lost."""


class StoredProducerIds:
    """See ``headwater.engine.ProducerIds``: brokers on one metadata store never give one twice."""

    def __init__(self, meta: MetadataStore, cluster: ClusterRecord) -> None:
        self._meta = meta
        self._cluster = cluster
        self._left = range(0)
        self._lock = asyncio.Lock()

    async def allocate(self) -> int:
        """Raises ``KafkaStorageError`` where the store is no longer this cluster's."""
        async with self._lock:
            if not self._left:
                self._left = await self._take_block()
            taken, self._left = self._left[0], self._left[1:]
            return taken

    async def _take_block(self) -> range:
        def decide(values: Values) -> tuple[Writes, range]:
            writes = Writes()
            check_same_cluster(values[keys.CLUSTER], self._cluster)  # else ids are given again
            there = values[keys.NEXT_PRODUCER]
            counter = decode(NextNumber, there.value) if there is not None else NextNumber()
            block = range(counter.next, counter.next + BLOCK)
            counter.next = block.stop
            writes.put(keys.NEXT_PRODUCER, encode(counter))
            return writes, block

        try:
            return await transact(self._meta, [keys.CLUSTER, keys.NEXT_PRODUCER], decide)
        except ConfigurationError as error:  # this broker ends in a moment
            raise KafkaStorageError(str(error)) from error
