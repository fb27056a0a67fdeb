"""Allocates producer ids from a counter in the metadata store."""

import asyncio

from headwater.cluster_record import ClusterRecord, check_same_cluster
from headwater.errors import ConfigurationError, KafkaStorageError
from headwater.meta import keys
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.transactions import transact
from headwater.meta.values import NextNumber, decode, encode

BLOCK = 1000
"""Ids taken from the store at a time; the unused ids of a block are lost with the process."""


class StoredProducerIds:
    """``headwater.engine.ProducerIds`` that are unique among all brokers on one metadata store."""

    def __init__(self, meta: MetadataStore, cluster: ClusterRecord) -> None:
        self._meta = meta
        self._cluster = cluster
        self._left = range(0)
        self._lock = asyncio.Lock()

    async def allocate(self) -> int:
        """A new producer id; raises ``KafkaStorageError`` if the store has another cluster."""
        async with self._lock:
            if not self._left:
                self._left = await self._take_block()
            taken, self._left = self._left[0], self._left[1:]
            return taken

    async def _take_block(self) -> range:
        def decide(values: Values) -> tuple[Writes, range]:
            writes = Writes()
            check_same_cluster(
                values[keys.CLUSTER], self._cluster
            )  # otherwise ids could be allocated twice
            there = values[keys.NEXT_PRODUCER]
            counter = decode(NextNumber, there.value) if there is not None else NextNumber()
            block = range(counter.next, counter.next + BLOCK)
            counter.next = block.stop
            writes.put(keys.NEXT_PRODUCER, encode(counter))
            return writes, block

        try:
            return await transact(self._meta, [keys.CLUSTER, keys.NEXT_PRODUCER], decide)
        except ConfigurationError as error:  # this broker stops in a moment
            raise KafkaStorageError(str(error)) from error
