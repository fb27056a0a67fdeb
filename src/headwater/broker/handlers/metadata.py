"""Metadata, versions 0-13.

Behaviour: the live brokers, and the requested topics. Null, or in version 0 an empty list, means
all topics; from 1 on an empty list means none. A missing topic is created if
``auto.create.topics.enable`` and the request allow it. Every partition has one replica, its leader,
which rendezvous hashing chooses; any other broker would serve it too. If brokers are in several
zones, each zone has a replica, so that consumers can fetch from their own rack. The leader epoch is
the cluster's restore epoch. A client that names its zone in ``client.id`` sees only the brokers of
that zone, if there are any.

Codes: UNKNOWN_TOPIC_OR_PARTITION (3); LEADER_NOT_AVAILABLE (5): a topic that is not created yet,
because the client is over its quota on mutations or the request creates too many partitions;
INVALID_TOPIC_EXCEPTION (17): illegal name; INVALID_REQUEST (42); UNKNOWN_TOPIC_ID (100).

Notes by version: the request decides about automatic creation from 4; authorized operations from 8;
topic ids from 10 in the reply, and from 12 in the request.

Left out: nothing.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import UUID

from headwater.broker.authorizer import Operation, Resource, allowed_operations, cluster_operations
from headwater.broker.cluster.view import LiveBrokers
from headwater.broker.cluster.zones import zone_of
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import EncodedReply, Reply
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.creation import INTERNAL_TOPICS, TopicCreation
from headwater.engine import Topic
from headwater.errors import InvalidRequest, KafkaError, TopicAuthorizationFailed
from headwater.wire.messages.api_versions import ApiKey
from headwater.wire.messages.encoder import Segments
from headwater.wire.messages.replies import NO_AUTHORIZED_OPERATIONS, MetadataTopic, encode_metadata
from headwater.work_budget import TURN_ELEMENTS, Turn, in_turns, yield_turn

_FIRST_VERSION_WITH_IDS: Final = 12
_NO_ID: Final = bytes(16)
_ZERO: Final = UUID(int=0)

Found = Topic | tuple[str | UUID, int]
"""A topic, or a requested name or id with its error code."""


class MetadataReply(EncodedReply):
    """Brokers and topics."""

    __slots__ = ("_brokers", "_cluster_id", "_cluster_operations", "_topics", "rows", "throttle_ms")

    def __init__(
        self,
        cluster_id: str,
        brokers: LiveBrokers,
        topics: list[MetadataTopic],
        cluster_operations: int,
        rows: int,
        throttle_ms: int = 0,
    ) -> None:
        self._cluster_id = cluster_id
        self._brokers = brokers
        self._topics = topics
        self._cluster_operations = cluster_operations
        self.rows = rows
        self.throttle_ms = throttle_ms

    def segments(self, version: int, correlation_id: int, throttle_ms: int) -> Segments:
        brokers = self._brokers.addresses
        return [
            encode_metadata(
                version,
                correlation_id,
                brokers=[(b.id, b.host, b.port, b.rack) for b in brokers],
                cluster_id=self._cluster_id,
                controller_id=brokers[0].id,
                topics=self._topics,
                cluster_authorized_operations=self._cluster_operations,
                throttle_ms=throttle_ms,
            )
        ]


@dataclass(frozen=True, slots=True)
class _MetadataView:
    """One snapshot of the live brokers, so that every leader in a reply is among its brokers."""

    cluster_id: str
    brokers: LiveBrokers
    epoch: int
    operations: Callable[[str], int]
    """From a topic's name to the operations that the client may do."""
    cluster_operations: int

    def row(self, found: Found) -> MetadataTopic:
        if not isinstance(found, Topic):
            return _error_row(*found)
        choose, epoch = self.brokers.replicas, self.epoch
        partitions = []
        for index, stream in enumerate(found.streams):
            replicas = choose(stream)
            partitions.append((0, index, replicas[0], epoch, replicas, replicas, ()))
        return (
            0,
            found.name,
            found.id.bytes,
            found.internal,
            partitions,
            self.operations(found.name),
        )

    def reply(self, topics: list[MetadataTopic], rows: int, throttle_ms: int = 0) -> Reply:
        return MetadataReply(
            self.cluster_id, self.brokers, topics, self.cluster_operations, rows, throttle_ms
        )


def handle(services: Services, request: Any, context: RequestContext) -> Reply | Awaitable[Reply]:
    """Answered at once if the cache has every topic and the reply fits into one turn."""
    asked = request.topics
    if asked is None or (context.version == 0 and not asked):
        return _all_topics(services, request, context)
    _check_names(asked, context.version)
    if len(asked) > TURN_ELEMENTS:
        return _named_topics(services, request, context)
    found: list[Topic] = []
    rows = 0
    for one in _unique(asked):
        try:
            topic = services.topics.cached(context.session, one, 0, Operation.DESCRIBE)
        except TopicAuthorizationFailed:
            topic = None
        if topic is None:
            return _named_topics(services, request, context)
        found.append(topic)
        rows += len(topic.streams)
    if rows > TURN_ELEMENTS:
        return _reply(services, request, context, found)
    view = _view(services, request, context)
    return view.reply([view.row(topic) for topic in found], rows)


async def _all_topics(services: Services, request: Any, context: RequestContext) -> Reply:
    shown = [
        topic
        for topic in await services.engine.topics.all()
        if services.topics.allows(context.session, topic.name, Operation.DESCRIBE)
    ]
    return await _reply(services, request, context, shown)


async def _named_topics(services: Services, request: Any, context: RequestContext) -> Reply:
    create = bool(optional_field(request, "allow_auto_topic_creation", default=True))
    creation = TopicCreation(services, context)
    found: list[Found] = []
    async for ref in in_turns(_unique(request.topics)):
        try:
            if isinstance(ref, UUID):
                topic = await services.topics.find(context.session, ref, Operation.DESCRIBE)
            elif create:
                topic = await creation.find_or_create(ref)
            else:
                topic = await services.topics.find_named(context.session, ref, Operation.DESCRIBE)
        except KafkaError as error:
            found.append((ref, error.code))
        else:
            found.append(topic)
    return await _reply(services, request, context, found, creation.throttle_ms)


async def _reply(
    services: Services,
    request: Any,
    context: RequestContext,
    found: Sequence[Found],
    throttle_ms: int = 0,
) -> Reply:
    """Yields to the event loop, because a topic may have thousands of partitions."""
    view = _view(services, request, context)
    turn, rows = Turn(), 0
    topics = []
    for one in found:
        topics.append(view.row(one))
        size = 1 + (len(one.streams) if isinstance(one, Topic) else 0)
        rows += size
        if turn.spend(size):
            await yield_turn()
    return view.reply(topics, rows, throttle_ms)


def _view(services: Services, request: Any, context: RequestContext) -> _MetadataView:
    cluster = services.cluster
    return _MetadataView(
        cluster.cluster_id,
        cluster.zone(zone_of(context.client_id), context.session.listener),
        cluster.leader_epoch,
        _topic_operations(services, request, context),
        NO_AUTHORIZED_OPERATIONS
        if not optional_field(request, "include_cluster_authorized_operations", default=False)
        else cluster_operations(services.authorizer, context.session),
    )


def _topic_operations(
    services: Services, request: Any, context: RequestContext
) -> Callable[[str], int]:
    if not optional_field(request, "include_topic_authorized_operations", default=False):
        return _not_asked_for
    return partial(allowed_operations, services.authorizer, context.session, Resource.TOPIC)


def _not_asked_for(_name: str) -> int:
    return NO_AUTHORIZED_OPERATIONS


def _check_names(asked: Iterable[Any], version: int) -> None:
    if version >= _FIRST_VERSION_WITH_IDS:
        return
    for one in asked:
        if one.name is None:
            raise InvalidRequest(f"Topic name can not be null for version {version}")
        if optional_field(one, "topic_id", default=None) is not None:
            raise InvalidRequest(f"Topic IDs are not supported in requests for version {version}")


def _unique(asked: Iterable[Any]) -> list[str | UUID]:
    """The names and ids of a request, each once. An id takes precedence over a name beside it,
    because Kafka's Java client sends an empty name, not null, with an id.
    """
    refs: dict[str | UUID, None] = {}
    for one in asked:
        ref: str | UUID | None = optional_field(one, "topic_id", default=None)
        if ref is None:
            ref = _ZERO if one.name is None else one.name
        refs[ref] = None
    return list(refs)


def _error_row(ref: str | UUID, code: int) -> MetadataTopic:
    if isinstance(ref, UUID):
        return code, None, ref.bytes, False, (), NO_AUTHORIZED_OPERATIONS
    return code, ref, _NO_ID, ref in INTERNAL_TOPICS, (), NO_AUTHORIZED_OPERATIONS


API = Api(ApiKey.METADATA, "Metadata", handle=handle)
