"""Keys of a world's metadata store, read and written as a broker or a restore would."""

from collections.abc import Mapping
from contextlib import closing

from headwater.log.restore.snapshots import EVERYTHING
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.store_thread import StoreThread
from headwater.meta.values import Value, encode
from tests.support.tables.world import TablesWorld


def write_keys(
    world: TablesWorld, values: Mapping[str, Value | bytes], *, wipe: bool = False
) -> None:
    """Put keys; with ``wipe`` they are all that the store has afterwards."""

    def decide(_values: Values) -> tuple[Writes, None]:
        writes = Writes()
        if wipe:
            writes.delete_range(*EVERYTHING)
        for key, value in values.items():
            writes.put(key, value if isinstance(value, bytes) else encode(value))
        return writes, None

    with closing(StoreThread(world.metadata_url)) as store:
        store.run(store.meta.transact(0, [], decide))


def read_keys(world: TablesWorld) -> dict[str, bytes]:
    """Every key of the store, as a snapshot has them."""

    async def read(meta: MetadataStore) -> dict[str, bytes]:
        return {entry.key: entry.value for entry in (await meta.scan(*EVERYTHING)).entries}

    with closing(StoreThread(world.metadata_url)) as store:
        return store.run(read(store.meta))
