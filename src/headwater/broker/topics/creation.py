"""Topics that come into being because a client asked for them by name."""

from headwater.broker.authorizer import CLUSTER_NAME, Operation, Resource
from headwater.broker.network.client_session import ClientSession
from headwater.broker.quotas.enforcement import MutationQuota
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.names import Collisions
from headwater.engine import Topic
from headwater.errors import (
    LeaderNotAvailable,
    ThrottlingQuotaExceeded,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from headwater.work_budget import MAX_PARTITIONS_PER_REQUEST

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka keeps its own state in these; here that state is in the metadata store."""


def check_may_create(services: Services, session: ClientSession, name: str) -> None:
    """Raises ``TopicAuthorizationFailed`` unless a client may create topics, or this one."""
    if not services.authorizer.allows(session, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME):
        services.topics.require(session, name, Operation.CREATE)


class TopicCreation:
    """Creates the missing topics of one Metadata request, where the cluster allows it.

    The client's quota on mutations holds for them as it does for CreateTopics, and so does the
    limit of partitions that one request may create.
    """

    __slots__ = ("_collisions", "_left", "_quota", "_services", "_session")

    def __init__(self, services: Services, context: RequestContext) -> None:
        self._services = services
        self._session = context.session
        self._quota: MutationQuota = services.dynamic.quotas.mutations(
            context.client_id, strict=True
        )
        self._collisions = Collisions(services.engine.topics.stored_names)
        self._left = MAX_PARTITIONS_PER_REQUEST

    @property
    def throttle_ms(self) -> int:
        """How long the client is to wait because it created too much."""
        return self._quota.throttle_ms

    async def find_or_create(self, name: str) -> Topic:
        """The topic of that name; raises what ``TopicAccess.find_named`` raises if it may
        not be created.

        Raises ``LeaderNotAvailable``, after which clients ask again, if it may be created later.
        """
        services = self._services
        topics, settings = services.engine.topics, services.settings
        try:
            return await services.topics.find_named(self._session, name, Operation.DESCRIBE)
        except UnknownTopicOrPartition:
            if not settings.auto_create_topics or name in INTERNAL_TOPICS:
                raise
        check_may_create(services, self._session, name)
        partitions = settings.num_partitions
        if partitions > self._left:
            raise LeaderNotAvailable(f"topic {name!r} is one too many for one request")
        await self._collisions.check(name)
        try:
            self._quota.take(partitions)
        except ThrottlingQuotaExceeded as error:
            raise LeaderNotAvailable(f"topic {name!r} is over the client's quota") from error
        self._left -= partitions
        try:
            topic = await topics.create(name, partitions, {})
        except TopicAlreadyExists:
            return await topics.find(name)
        self._collisions.created(name)
        return topic
