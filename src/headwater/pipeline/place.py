"""A cluster as a process sees it that is no broker: its stores, and what jobs need of them."""

import contextlib
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from urllib.parse import unquote, urlsplit

from headwater.clock import Clock, SystemClock
from headwater.cluster_record import Cluster
from headwater.errors import ConfigurationError
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.restore.bookmarks import check_bookmark
from headwater.log.restore.claim import check_claim
from headwater.meta import keys
from headwater.meta.store import MetadataStore
from headwater.meta.urls import open_store, shown
from headwater.meta.values import decode
from headwater.objects.store import ObjectStore
from headwater.objects.urls import open_objects
from headwater.pipeline.compaction.table_commits import TableCommits
from headwater.tables.settings import TableSettings

IO_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a cluster's data is."""

    data: Path
    metadata_url: str
    objects_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The opened stores of a cluster."""

    address: Address
    meta: MetadataStore
    objects: ObjectStore
    reclaimer: Reclaimer
    clock: Clock
    cluster: Cluster
    tables: TableCommits


@contextlib.asynccontextmanager
async def open_place(address: Address, tables: TableSettings) -> AsyncIterator[Place]:
    """Open a cluster's stores for as long as the block runs.

    Raises ``ConfigurationError`` where there is no cluster, one that lives in the memory of its
    broker, one with other objects, or one whose metadata store went back to an earlier state;
    what the stores raise.
    """
    _check_reachable(address)
    clock, random = SystemClock(), Random(SystemRandom().getrandbits(128))  # noqa: S311 - pauses
    async with contextlib.AsyncExitStack() as stack:
        executor = ThreadPoolExecutor(IO_THREADS, "headwater-io")
        stack.callback(executor.shutdown)
        objects = open_objects(address.objects_url, clock=clock, random=random, executor=executor)
        stack.push_async_callback(objects.close)
        meta = await open_store(address.metadata_url, clock)
        stack.push_async_callback(meta.close)
        stored = await meta.get(keys.CLUSTER)
        if stored is None:
            raise _no_cluster(address.metadata_url)
        cluster = decode(Cluster, stored.value)
        await check_claim(objects, cluster, shown(address.objects_url))
        await check_bookmark(meta, objects, cluster)
        commits = TableCommits(
            tables,
            data=address.data,
            metadata_url=address.metadata_url,
            objects_url=address.objects_url,
            cluster_id=cluster.id,
            epoch=cluster.epoch,
        )
        stack.callback(commits.close)
        yield Place(
            address=address,
            meta=meta,
            objects=objects,
            reclaimer=Reclaimer(objects),
            clock=clock,
            cluster=cluster,
            tables=commits,
        )


def _check_reachable(address: Address) -> None:
    for url in (address.metadata_url, address.objects_url):
        if url.startswith("memory:"):
            raise ConfigurationError(f"{url} is in its broker's memory, where no job can reach it")
    parts = urlsplit(address.metadata_url)
    # Opening would create it.
    if parts.scheme == "sqlite" and not Path(unquote(parts.path)[1:]).exists():
        raise _no_cluster(address.metadata_url)


def _no_cluster(url: str) -> ConfigurationError:
    return ConfigurationError(
        f"there is no cluster in {shown(url)}: "
        "give the data directory of `headwater serve` with --data, "
        "or its --metadata and --objects"
    )
