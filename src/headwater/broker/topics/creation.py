"""Creates topics automatically, for Metadata requests that name missing ones."""

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
"""Topics of Kafka's own state, which is in the metadata store here. They are not created."""


def check_may_create(services: Services, session: ClientSession, name: str) -> None:
    """Raises ``TopicAuthorizationFailed`` unless a client may create any topic, or this one."""
    if not services.authorizer.allows(session, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME):
        services.topics.require(session, name, Operation.CREATE)


class TopicCreation:
    """Creates the missing topics of one Metadata request, if the cluster allows it.

    As in CreateTopics, the client's quota on mutations applies, and the limit of partitions in
    one request.
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
        """The client's throttle time for the partitions that it created, in milliseconds."""
        return self._quota.throttle_ms

    async def find_or_create(self, name: str) -> Topic:
        """The topic with a name, created if necessary.

        If it may not be created, this raises what ``TopicAccess.find_named`` raises. If it may be
        created later, this raises ``LeaderNotAvailable``, after which clients retry.
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
            raise LeaderNotAvailable(
                f"topic {name!r} is not created yet: one request may create "
                f"{MAX_PARTITIONS_PER_REQUEST} partitions"
            )
        await self._collisions.check(name)
        try:
            self._quota.take(partitions)
        except ThrottlingQuotaExceeded as error:
            raise LeaderNotAvailable(
                f"topic {name!r} is not created yet: the client is over its quota"
            ) from error
        self._left -= partitions
        try:
            topic = await topics.create(name, partitions, {})
        except TopicAlreadyExists:
            return await topics.find(name)
        self._collisions.created(name)
        return topic
