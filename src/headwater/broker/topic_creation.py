"""Topics that come into being because a client asked for them by name."""

from headwater.broker.services import Services
from headwater.broker.topic_names import check_collision, check_topic_name
from headwater.engine import Topic
from headwater.errors import TopicAlreadyExists, UnknownTopicOrPartition

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka keeps its own state in these; here that state is in the metadata store."""


async def find_or_create(services: Services, name: str, *, create: bool) -> Topic:
    """The topic of that name, brought into being where the cluster and the request allow it.

    Raises ``UnknownTopicOrPartition`` where it is not there, ``InvalidTopic`` where it cannot be.
    """
    topics = services.engine.topics
    try:
        return await topics.find(name)
    except UnknownTopicOrPartition:
        check_topic_name(name)
        if not create or not services.settings.auto_create_topics or name in INTERNAL_TOPICS:
            raise
    if "." in name or "_" in name:
        check_collision(name, (topic.name for topic in await topics.all()))
    try:
        return await topics.create(name, services.settings.num_partitions, {})
    except TopicAlreadyExists:
        return await topics.find(name)
