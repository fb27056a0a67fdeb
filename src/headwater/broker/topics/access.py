"""From a topic and partition that a request names to the topic, if the client may use it.

Every handler finds topics here, so that none can forget to ask whether its client may. A client
that may not use a topic does not learn whether there is one of that name.
"""

from uuid import UUID

from headwater.broker.authorizer import Authorizer, Operation, Resource, refusal
from headwater.broker.network.client_session import ClientSession
from headwater.broker.topics.names import check_topic_name
from headwater.engine import Topic, Topics
from headwater.errors import UnknownTopicOrPartition


class TopicAccess:
    """The topics of an engine, as an authorizer shows them to a client."""

    __slots__ = ("_allows", "_topics")

    def __init__(self, topics: Topics, authorizer: Authorizer) -> None:
        self._topics = topics
        self._allows = authorizer.allows

    def allows(self, session: ClientSession, name: str, operation: Operation) -> bool:
        return self._allows(session, operation, Resource.TOPIC, name)

    def require(self, session: ClientSession, name: str, operation: Operation) -> None:
        """Raises ``TopicAuthorizationFailed``."""
        if not self._allows(session, operation, Resource.TOPIC, name):
            raise refusal(session, operation, Resource.TOPIC, name)

    def cached(
        self, session: ClientSession, ref: str | UUID, partition: int, operation: Operation
    ) -> Topic | None:
        """The topic if the cache knows it with that partition; None says nothing about it.

        Raises ``TopicAuthorizationFailed``.
        """
        topics = self._topics
        topic = topics.get_by_id(ref) if isinstance(ref, UUID) else topics.get(ref)
        if topic is None or not 0 <= partition < len(topic.streams):
            return None
        if not self._allows(session, operation, Resource.TOPIC, topic.name):
            raise refusal(session, operation, Resource.TOPIC, topic.name)
        return topic

    async def find(
        self, session: ClientSession, ref: str | UUID, operation: Operation, *, partition: int = 0
    ) -> Topic:
        """The topic of a name or an id; the store is asked if the cache lacks that partition.

        Raises ``TopicAuthorizationFailed``, ``UnknownTopicOrPartition`` or ``UnknownTopicId``.
        """
        if isinstance(ref, UUID):
            topic = await self._topics.find_by_id(ref, partition=partition)
            self.require(session, topic.name, operation)
            return topic
        self.require(session, ref, operation)
        return await self._topics.find(ref, partition=partition)

    async def find_named(self, session: ClientSession, name: str, operation: Operation) -> Topic:
        """The same of a name; raises ``InvalidTopic`` if no topic can have it."""
        try:
            return await self.find(session, name, operation)
        except UnknownTopicOrPartition:
            check_topic_name(name)
            raise

    async def find_for_cluster(self, name: str) -> Topic | None:
        """The topic for an API that needs a right on the cluster only; None if there is none."""
        try:
            return await self._topics.find(name)
        except UnknownTopicOrPartition:
            return None

    async def resolve(
        self, session: ClientSession, ref: str | UUID, partition: int, operation: Operation
    ) -> Topic:
        """The topic, if it has that partition; raises what ``find`` raises if it has not."""
        topic = await self.find(session, ref, operation)
        check_partition(topic, partition)
        return topic


def has_partition(topic: Topic, partition: int) -> bool:
    return 0 <= partition < len(topic.streams)


def check_partition(topic: Topic, partition: int) -> None:
    """Raises ``UnknownTopicOrPartition`` if the topic has no such partition."""
    if not 0 <= partition < len(topic.streams):
        raise UnknownTopicOrPartition(f"{topic.name} has no partition {partition}")
