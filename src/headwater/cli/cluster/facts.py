"""A cluster's brokers, feature level and snapshots, read from the metadata store."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from headwater.broker.cluster.finalize import Finalized, finalize
from headwater.broker.cluster.registration import Registration
from headwater.clock import SystemClock
from headwater.cluster_record import ClusterRecord
from headwater.coordination.leases import Lease
from headwater.errors import ConfigurationError
from headwater.feature_levels import SUPPORTED_LEVELS
from headwater.log.restore.snapshots import kept_snapshots
from headwater.meta import keys
from headwater.meta.store import MetadataStore, prefix_end
from headwater.meta.urls import open_store, sqlite_file
from headwater.meta.values import decode


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """A live broker; ``shards`` is the number of group shards that it coordinates."""

    id: int
    address: str
    rack: str | None
    state: str
    epoch: int
    levels: tuple[int, int]
    shards: int
    groups: int
    active: bool


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    taken: str
    key: str


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    cluster_id: str | None
    level: int
    epoch: int
    can_finalize: int | None
    """A higher level that every broker supports; None if there is none."""
    snapshot: SnapshotFacts | None
    """The newest."""
    brokers: list[BrokerFacts] = field(default_factory=list)


def missing_file(url: str) -> Path | None:
    """The missing file of an embedded metadata store. Opening the store would create it."""
    if urlsplit(url).scheme != "sqlite":
        return None
    file = sqlite_file(url)
    return None if file.exists() else file


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[MetadataStore]:
    """Open an existing store; raises ``ConfigurationError`` if there is none."""
    if (file := missing_file(url)) is not None:
        raise ConfigurationError(
            f"there is no metadata store at {file}; name its directory with --data"
        )
    meta = await open_store(url, SystemClock())
    try:
        yield meta
    finally:
        await meta.close()


async def look(url: str) -> ClusterFacts:
    """All facts, for ``headwater cluster status``."""
    async with opened(url) as meta:
        stored = await meta.get(keys.CLUSTER)
        record = None if stored is None else decode(ClusterRecord, stored.value)
        found = await brokers(meta)
        level = 0 if record is None else record.level
        spoken = min((each.levels[1] for each in found), default=0)
        higher = min(spoken, SUPPORTED_LEVELS.highest)
        kept = await kept_snapshots(meta)
        newest = max(kept, key=lambda each: each.taken_ms, default=None)
        return ClusterFacts(
            cluster_id=None if record is None else record.id,
            level=level,
            epoch=0 if record is None else record.epoch,
            can_finalize=higher if higher > level else None,
            snapshot=(
                None if newest is None else SnapshotFacts(moment(newest.taken_ms), newest.key)
            ),
            brokers=found,
        )


async def brokers(meta: MetadataStore) -> list[BrokerFacts]:
    """The live brokers, by id."""
    leases = await meta.scan(keys.COORDINATORS, prefix_end(keys.COORDINATORS))
    shards = Counter(decode(Lease, entry.value).broker for entry in leases.entries)
    found = await meta.scan(keys.BROKERS, prefix_end(keys.BROKERS))
    facts = []
    for entry in found.entries:
        broker, each = int(entry.key.removeprefix(keys.BROKERS)), decode(Registration, entry.value)
        facts.append(
            BrokerFacts(
                broker,
                f"{each.host}:{each.port}",
                each.rack,
                each.state,
                each.epoch,
                each.levels,
                shards[broker],
                each.groups,
                each.active,
            )
        )
    return facts


async def finalize_cluster(url: str, level: int | None, *, dry_run: bool) -> Finalized:
    async with opened(url) as meta:
        return await finalize(meta, level, dry_run=dry_run)


def moment(milliseconds: int) -> str:
    """A time in UTC.

    >>> moment(0)
    '1970-01-01 00:00:00 UTC'
    """
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
