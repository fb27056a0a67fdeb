"""Topics as requests about offsets name them: by name, and by id in the newest versions."""

from typing import Any, Final

from headwater.broker.replies import Values
from headwater.broker.services import Services
from headwater.engine import Topic
from headwater.errors import (
    CoordinatorNotAvailable,
    KafkaStorageError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from headwater.wire.error_codes import Code

FIRST_VERSION_WITH_IDS: Final = 10
"""Of OffsetCommit and of OffsetFetch."""


async def find_topic(
    services: Services, asked: Any, *, by_id: bool = False, partition: int = 0
) -> Topic | None:
    """The topic that an element of a request is about; None where there is none.

    Raises ``CoordinatorNotAvailable`` where the store does not answer: 56 is no code that
    clients expect of a coordinator.
    """
    topics = services.engine.topics
    try:
        if not by_id:
            return await topics.find(asked.name, partition=partition)
        if asked.topic_id is None:
            return None
        return await topics.find_by_id(asked.topic_id, partition=partition)
    except (UnknownTopicId, UnknownTopicOrPartition):
        return None
    except KafkaStorageError as error:
        raise CoordinatorNotAvailable(f"a topic cannot be looked up: {error}") from error


def naming(asked: Any, *, by_id: bool = False) -> Values:
    """The field that names the topic in the reply as it was in the request."""
    return {"topic_id": asked.topic_id} if by_id else {"name": asked.name}


def unknown_topic(*, by_id: bool = False) -> Code:
    """The code of every partition of a topic that does not exist."""
    return Code.UNKNOWN_TOPIC_ID if by_id else Code.UNKNOWN_TOPIC_OR_PARTITION
