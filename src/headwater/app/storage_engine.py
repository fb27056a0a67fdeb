"""The storage engine of a broker, made from the settings."""

from collections.abc import Mapping
from random import Random

from headwater.broker.cluster.membership import Membership
from headwater.broker.configs.dynamic_state import DynamicState
from headwater.clock import Clock
from headwater.cluster_record import ClusterRecord
from headwater.config import Settings
from headwater.engine import LogDirectory, StorageEngine
from headwater.log.engine import LogEngine
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.record_work import RecordWork
from headwater.meta.store import MetadataStore
from headwater.objects.store import ObjectStore
from headwater.objects.urls import local_directory, shown_url
from headwater.telemetry.metrics import Metrics


def make_engine(
    settings: Settings,
    *,
    meta: MetadataStore,
    objects: ObjectStore,
    reclaimer: Reclaimer,
    cluster: ClusterRecord,
    members: Membership,
    dynamic: DynamicState,
    clock: Clock,
    rng: Random,
    metrics: Metrics,
    record_work: RecordWork,
) -> StorageEngine:
    """The log over object storage, not started yet."""
    broker_id = settings.broker.id

    def is_led_here(stream: int) -> bool:
        return members.leader(stream) == broker_id

    def topic_defaults() -> Mapping[str, str]:
        return dynamic.brokers.topic_defaults

    return LogEngine(
        meta=meta,
        objects=objects,
        reclaimer=reclaimer,
        broker_id=broker_id,
        cluster=cluster,
        settings=settings.log,
        clock=clock,
        rng=rng,
        metrics=metrics,
        living=members.living,
        share=is_led_here,
        topic_defaults=topic_defaults,
        record_work=record_work,
        directory=log_directory(settings.objects_url),
    )


def log_directory(objects_url: str) -> LogDirectory:
    """The log directory that DescribeLogDirs reports."""
    path = local_directory(objects_url)
    return LogDirectory(str(path) if path else shown_url(objects_url), path)
