"""The opened stores of a cluster, for a process that is not a broker."""

import contextlib
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from urllib.parse import unquote, urlsplit

from headwater.clock import Clock, SystemClock
from headwater.cluster_record import ClusterRecord
from headwater.errors import ConfigurationError
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.restore.bookmarks import check_bookmark
from headwater.log.restore.claim import check_claim
from headwater.meta import keys
from headwater.meta.store import MetadataStore
from headwater.meta.urls import open_store, without_password
from headwater.meta.values import decode
from headwater.objects.store import ObjectStore
from headwater.objects.urls import open_objects
from headwater.pipeline.compaction.table_commits import TableCommits
from headwater.tables.settings import TableSettings

IO_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLocation:
    """The data directory and the store URLs of a cluster."""

    data: Path
    metadata_url: str
    objects_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStores:
    """The opened stores of a cluster, and its tables."""

    location: StoreLocation
    meta: MetadataStore
    objects: ObjectStore
    reclaimer: Reclaimer
    clock: Clock
    cluster: ClusterRecord
    tables: TableCommits


@contextlib.asynccontextmanager
async def open_cluster_stores(
    location: StoreLocation, tables: TableSettings
) -> AsyncIterator[ClusterStores]:
    """Open a cluster's stores for as long as the block runs.

    Raises ``ConfigurationError`` if there is no cluster, if it lives in the memory of its broker,
    if the object store belongs to another cluster, or if the metadata store went back to an
    earlier state. Also raises what the stores raise.
    """
    _check_reachable(location)
    clock, random = SystemClock(), Random(SystemRandom().getrandbits(128))  # noqa: S311 - pauses
    async with contextlib.AsyncExitStack() as stack:
        executor = ThreadPoolExecutor(IO_THREADS, "headwater-io")
        stack.callback(executor.shutdown)
        objects = open_objects(location.objects_url, clock=clock, random=random, executor=executor)
        stack.push_async_callback(objects.close)
        meta = await open_store(location.metadata_url, clock)
        stack.push_async_callback(meta.close)
        stored = await meta.get(keys.CLUSTER)
        if stored is None:
            raise _no_cluster(location.metadata_url)
        cluster = decode(ClusterRecord, stored.value)
        await check_claim(objects, cluster, without_password(location.objects_url))
        await check_bookmark(meta, objects, cluster)
        commits = TableCommits(
            tables,
            data=location.data,
            metadata_url=location.metadata_url,
            objects_url=location.objects_url,
            cluster_id=cluster.id,
            epoch=cluster.epoch,
        )
        stack.callback(commits.close)
        yield ClusterStores(
            location=location,
            meta=meta,
            objects=objects,
            reclaimer=Reclaimer(objects),
            clock=clock,
            cluster=cluster,
            tables=commits,
        )


def _check_reachable(location: StoreLocation) -> None:
    for url in (location.metadata_url, location.objects_url):
        if url.startswith("memory:"):
            raise ConfigurationError(
                f"{url} is in its broker's memory, which other processes cannot read"
            )
    parts = urlsplit(location.metadata_url)
    # Opening would create the file.
    if parts.scheme == "sqlite" and not Path(unquote(parts.path)[1:]).exists():
        raise _no_cluster(location.metadata_url)


def _no_cluster(url: str) -> ConfigurationError:
    return ConfigurationError(
        f"there is no cluster in {without_password(url)}: "
        "give the data directory of `headwater serve` with --data, "
        "or its --metadata and --objects"
    )
