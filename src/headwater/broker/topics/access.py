"""Finds the topic that a request names, and checks the client's right to use it.

All handlers find topics here, so that none can forget the check. A client without a right on a
topic does not learn whether it exists.
"""

from uuid import UUID

from headwater.broker.authorizer import Authorizer, Operation, Resource, refusal
from headwater.broker.network.client_session import ClientSession
from headwater.broker.topics.names import check_topic_name
from headwater.engine import Topic, Topics
from headwater.errors import UnknownTopicOrPartition


class TopicAccess:
    """An engine's topics, behind an authorizer."""

    __slots__ = ("_allows", "_topics")

    def __init__(self, topics: Topics, authorizer: Authorizer) -> None:
        self._topics = topics
        self._allows = authorizer.allows

    def allows(self, session: ClientSession, name: str, operation: Operation) -> bool:
        """Whether the session's principal may do this operation on a topic."""
        return self._allows(session, operation, Resource.TOPIC, name)

    def require(self, session: ClientSession, name: str, operation: Operation) -> None:
        """Raises ``TopicAuthorizationFailed``."""
        if not self._allows(session, operation, Resource.TOPIC, name):
            raise refusal(session, operation, Resource.TOPIC, name)

    def cached(
        self, session: ClientSession, ref: str | UUID, partition: int, operation: Operation
    ) -> Topic | None:
        """The topic, if the cache has it with this partition. None means that it is not cached.

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
        """The topic with a name or an id. The store is read if the cache lacks the partition.

        Raises ``TopicAuthorizationFailed``, ``UnknownTopicOrPartition`` or ``UnknownTopicId``.
        """
        if isinstance(ref, UUID):
            topic = await self._topics.find_by_id(ref, partition=partition)
            self.require(session, topic.name, operation)
            return topic
        self.require(session, ref, operation)
        return await self._topics.find(ref, partition=partition)

    async def find_named(self, session: ClientSession, name: str, operation: Operation) -> Topic:
        """The topic with a name; raises ``InvalidTopic`` if the name is illegal."""
        try:
            return await self.find(session, name, operation)
        except UnknownTopicOrPartition:
            check_topic_name(name)
            raise

    async def find_for_cluster(self, name: str) -> Topic | None:
        """The topic for an API that checks a right on the cluster only; None if there is none."""
        try:
            return await self._topics.find(name)
        except UnknownTopicOrPartition:
            return None

    async def resolve(
        self, session: ClientSession, ref: str | UUID, partition: int, operation: Operation
    ) -> Topic:
        """The topic, if it has the partition.

        Raises ``UnknownTopicOrPartition`` if it has not, and what ``find`` raises.
        """
        topic = await self.find(session, ref, operation)
        check_partition(topic, partition)
        return topic


def has_partition(topic: Topic, partition: int) -> bool:
    return 0 <= partition < len(topic.streams)


def check_partition(topic: Topic, partition: int) -> None:
    """Raises ``UnknownTopicOrPartition`` if the topic has no such partition."""
    if not 0 <= partition < len(topic.streams):
        raise UnknownTopicOrPartition(f"{topic.name} has no partition {partition}")
