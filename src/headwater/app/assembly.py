"""Assembling a broker: stores, log, groups, server, registration and telemetry."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from random import Random, SystemRandom
from types import TracebackType
from typing import Self
from urllib.parse import unquote, urlsplit

from headwater.app.object_store import (
    OBJECT_STORE,
    PAUSE,
    absent_store,
    open_object_store,
    retry_while_unavailable,
    unreadiness,
)
from headwater.app.pages import serve_catalog, serve_telemetry
from headwater.app.storage_engine import make_engine
from headwater.broker.cluster.broker_lock import BrokerLock
from headwater.broker.cluster.drain import Drainer
from headwater.broker.cluster.membership import Membership
from headwater.broker.cluster.view import PLAINTEXT, ListenerAddress
from headwater.broker.configs.dynamic_state import DynamicState
from headwater.broker.idle_memory import release_memory_when_idle
from headwater.broker.network.listener import Listener, broker_address
from headwater.broker.network.server import Server, listen
from headwater.broker.records.fetch_sessions import FetchSessions
from headwater.broker.records.record_checks import RecordChecks
from headwater.broker.services import Services
from headwater.clock import Clock, SystemClock
from headwater.config import HostPort, Settings
from headwater.engine import StorageEngine
from headwater.errors import ConfigurationError, StoreError
from headwater.extras import missing_modules, require_extra
from headwater.groups.coordinator import GroupCoordinator
from headwater.log.engine import open_cluster
from headwater.log.read.parquet.detection import has_parquet_files
from headwater.log.reclaim.orphans import fence
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.record_work import RecordWork
from headwater.log.restore.bookmarks import add_bookmark
from headwater.log.restore.claim import claim_objects, refuse_lost_metadata
from headwater.meta import keys
from headwater.meta.store import MetadataStore
from headwater.meta.urls import is_embedded, open_store, without_password
from headwater.objects.health import HealthState, StoreHealth
from headwater.objects.store import ObjectStore
from headwater.objects.urls import is_remote
from headwater.producer_ids import StoredProducerIds
from headwater.telemetry.metrics import Metrics
from headwater.telemetry.pages import telemetry_mount

logger = logging.getLogger(__name__)

READY_TIMEOUT = 2.0
IO_THREADS = 8


class BrokerProcess:
    """A broker, as an async context manager: it serves while the block runs.

    Entering waits for remote stores that do not answer. Other failures raise
    ``ConfigurationError`` or ``StoreError`` with a message of one line. Leaving waits for in-flight
    requests and flushes buffers.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._metrics = Metrics()
        self._metrics.refreshers.append(self._count_object_traffic)
        self._open = AsyncExitStack()
        self._health = StoreHealth()
        self._record_work = RecordWork()
        self._began: float
        self._meta: MetadataStore
        self._objects: ObjectStore
        self._dynamic: DynamicState
        self._engine: StorageEngine
        self._producer_ids: StoredProducerIds
        self._membership: Membership
        self._groups: GroupCoordinator
        self._drainer: Drainer
        self._server: Server
        self.address: HostPort
        """The address of the listener."""

    async def __aenter__(self) -> Self:
        while True:
            try:
                await self._start()
            except BaseException as error:
                await self._open.aclose()
                store = absent_store(error, embedded=is_embedded(self._settings.metadata_url))
                if store is None:
                    raise
                # Start again from the beginning, because values read so far may be out of date.
                if store == OBJECT_STORE:
                    logger.warning("Waiting for the object store", extra={"error": error})
                else:
                    logger.warning("Waiting for the metadata store", extra={"error": error})
                await asyncio.sleep(PAUSE)
            else:
                return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._open.aclose()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, then drain.

        Raises the error that ends the broker before that.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                runs = (
                    self._dynamic.run(), self._engine.run(), self._membership.run(),
                    self._groups.run(), self._drainer.run(), self._record_work.warm_up(),
                    release_memory_when_idle(self._engine.release_memory),
                )  # fmt: skip
                work = [tasks.create_task(run) for run in runs]
                await stop.wait()
                await self._drainer.drain_before_stop(self._settings.broker.drain_timeout_s)
                for task in work:
                    task.cancel()
        except BaseExceptionGroup as ended:
            # Logged at once, because closing a failing store may take long.
            logger.error("Broker failed", extra={"error": _first(ended)})  # noqa: TRY400 - raised
            raise
        logger.info("Stopping")

    async def _start(self) -> None:
        """Open everything. Steps that often fail and are cheap come first."""
        settings = self._settings
        self._began = asyncio.get_running_loop().time()
        clock, rng = SystemClock(), Random(SystemRandom().getrandbits(128))  # noqa: S311 - names
        wanted = HostPort.parse(settings.broker.listen)
        accepting = listen(wanted.host, wanted.port)
        self._open.callback(accepting.close)
        self.address = HostPort(wanted.host, accepting.getsockname()[1])
        executor = ThreadPoolExecutor(IO_THREADS, "headwater-io")
        self._open.callback(executor.shutdown)
        objects = await open_object_store(
            settings, clock=clock, random=rng, executor=executor, health=self._health
        )
        self._objects = objects
        reclaimer = Reclaimer(objects, self._metrics.objects_deleted)
        self._open.push_async_callback(self._objects.close)
        self._meta = await open_store(settings.metadata_url, clock)
        self._open.push_async_callback(self._meta.close)
        lock = lock_broker_id(settings)
        if lock is not None:
            self._open.callback(lock.release)
        await retry_while_unavailable(lambda: refuse_lost_metadata(self._meta, self._objects))
        record = await open_cluster(self._meta, rng)
        url = without_password(settings.objects_url)
        record = await retry_while_unavailable(
            partial(claim_objects, self._meta, self._objects, record, url)
        )
        await retry_while_unavailable(partial(add_bookmark, self._meta, objects, reclaimer, record))
        if missing_modules("table") and await has_parquet_files(self._meta):
            require_extra("table", "a broker of a cluster with compacted topics")
        advertised = advertised_address(settings, self.address)
        clients = ListenerAddress(PLAINTEXT, advertised.host, advertised.port)
        broker_id = settings.broker.id
        self._membership = Membership(
            meta=self._meta,
            address=broker_address(broker_id, [clients], settings.broker.rack),
            cluster_id=record.id,
            leader_epoch=record.epoch,
            level=lambda: self._engine.level,
            incarnation=lambda: self._engine.incarnation,
            fence=partial(fence, self._meta),
            exclusive=lock is not None,
            metrics=metrics_address(settings, advertised),
            session_seconds=settings.broker.session_timeout_s,
        )
        self._dynamic = DynamicState(
            self._meta,
            broker_id=broker_id,
            group_settings=settings.groups,
            now=asyncio.get_running_loop().time,
        )
        await self._dynamic.load()
        self._engine = make_engine(
            settings,
            meta=self._meta,
            objects=objects,
            reclaimer=reclaimer,
            cluster=record,
            members=self._membership,
            dynamic=self._dynamic,
            clock=clock,
            rng=rng,
            metrics=self._metrics,
            record_work=self._record_work,
        )
        self._producer_ids = StoredProducerIds(self._meta, record)
        await self._engine.start()
        await self._membership.join()
        self._open.push_async_callback(self._membership.leave)
        self._open.push_async_callback(self._engine.close)
        self._groups = GroupCoordinator(
            meta=self._meta,
            members=self._membership,
            topics=self._engine.topics,
            clock=clock,
            rng=rng,
            settings=settings.groups,
            metrics=self._metrics,
            configs=self._dynamic.groups,
        )
        self._drainer = Drainer(
            meta=self._meta,
            members=self._membership,
            metrics=self._metrics,
            hand_over=self._groups.hand_over,
            groups_held=self._groups.shards_held,
        )
        await self._serve([Listener(accepting, clients)], clock, rng)
        logger.info("Serving", extra=start_fields(settings, record.id, self.address, advertised))

    async def _serve(self, listeners: list[Listener], clock: Clock, rng: Random) -> None:
        """Start to accept clients."""
        own = replace(self._settings.broker, table_names=self._settings.tables.name)
        services = Services(
            engine=self._engine,
            backpressure=self._engine,
            producer_ids=self._producer_ids,
            dynamic=self._dynamic,
            groups=self._groups,
            group_settings=self._settings.groups,
            cluster=self._membership,
            settings=own,
            clock=clock,
            fetch_sessions=FetchSessions(
                own.max_fetch_sessions,
                own.fetch_session_idle_ms / 1000,
                asyncio.get_running_loop().time,
                rng,
            ),
            metrics=self._metrics,
            records=RecordChecks(self._record_work),
        )
        self._server = Server(services, listeners)
        telemetry = telemetry_mount(self._metrics, self._ready, self._status)
        await serve_telemetry(self._settings, telemetry, self._open)
        await serve_catalog(self._settings, self._open)
        await self._server.start()
        self._open.push_async_callback(self._server.stop)
        # Runs before the server stops, so that waiting members get a response and reconnect.
        self._open.push_async_callback(self._groups.close)

    async def _ready(self) -> str | None:
        try:
            async with asyncio.timeout(READY_TIMEOUT):
                await self._meta.get(keys.CLUSTER)
        except (TimeoutError, StoreError) as error:
            return f"the metadata store does not answer: {str(error) or 'no answer in time'}"
        if is_remote(self._settings.objects_url) and (
            reason := await unreadiness(self._objects, self._health, READY_TIMEOUT)
        ):
            return reason
        return None if self._engine.room else "the write buffers are full"

    async def _status(self) -> dict[str, object]:
        metrics = self._metrics
        metrics.refresh()
        return {
            "broker_id": self._settings.broker.id,
            "incarnation": self._engine.incarnation,
            "address": str(self.address),
            "uptime_s": asyncio.get_running_loop().time() - self._began,
            "connections": self._server.connections,
            "buffered_bytes": metrics.buffered_bytes.value,
            "requests": {api: counter.value for api, counter in metrics.requests},
            "flushes": metrics.flushes.value,
            "commits": metrics.commits.value,
            "commit_conflicts": metrics.commit_conflicts.value,
            "commit_seconds_p99": metrics.commit_seconds.quantile(0.99),
            "objects": asdict(self._objects.traffic),
            "object_store_id": self._objects.id,
            "object_store": HealthState(int(metrics.object_store_state.value)).name.lower(),
        }

    def _count_object_traffic(self) -> None:
        traffic, metrics = self._objects.traffic, self._metrics
        for kind, count in (
            ("put", traffic.puts),
            ("get", traffic.gets),
            ("delete", traffic.deletes),
            ("list", traffic.lists),
            ("retry", traffic.retries),
            ("error", traffic.errors),
        ):
            metrics.object_requests[kind].value = count
        metrics.object_bytes["written"].value = traffic.bytes_written
        metrics.object_bytes["read"].value = traffic.bytes_read
        metrics.object_store_state.set(self._health.state(asyncio.get_running_loop().time()))


def _first(error: BaseException) -> str:
    """The first error of a group in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def advertised_address(settings: Settings, listening: HostPort) -> HostPort:
    """The address for clients; raises ``ConfigurationError`` if it must be configured."""
    if settings.broker.advertise is not None:
        return HostPort.parse(settings.broker.advertise)
    if listening.is_wildcard:
        raise ConfigurationError(
            f"clients cannot connect to the wildcard address {listening.host}; "
            "name the address that they can reach with --advertise HOST:PORT"
        )
    return listening


def start_fields(
    settings: Settings, cluster_id: str, listening: HostPort, advertised: HostPort
) -> dict[str, object]:
    """What an operator wants to know of a broker that has started, without any password."""
    return {
        "version": version("headwater"),
        "broker": settings.broker.id,
        "cluster": cluster_id,
        "listen": str(listening),
        "advertised": str(advertised),
        "metadata": without_password(settings.metadata_url),
        "objects": without_password(settings.objects_url),
    }


def metrics_address(settings: Settings, advertised: HostPort) -> str | None:
    """The address of the broker's metrics for other hosts."""
    if settings.metrics.listen is None:
        return None
    return str(HostPort.parse(settings.metrics.listen).reachable_at(advertised.host))


def lock_broker_id(settings: Settings) -> BrokerLock | None:
    """Lock the broker's id among the processes of this host, if the metadata store is SQLite.

    Raises ``ConfigurationError`` if a running process holds the lock.
    """
    url = urlsplit(settings.metadata_url)
    if url.scheme != "sqlite":
        return None
    return BrokerLock(Path(unquote(url.path)[1:]).parent, settings.broker.id)
