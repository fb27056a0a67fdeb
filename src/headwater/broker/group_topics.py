"""Topics as requests about offsets name them: by name, and by id in the newest versions."""

from typing import Any, Final
from uuid import UUID

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
    services: Services, named: str | UUID | None, *, partition: int = 0
) -> Topic | None:
    """The topic of a name or an id; None where there is none.

    Raises ``CoordinatorNotAvailable`` where the store does not answer: 56 is no code that
    clients expect of a coordinator.
    """
    topics = services.engine.topics
    try:
        if named is None:
            return None
        if isinstance(named, str):
            return await topics.find(named, partition=partition)
        return await topics.find_by_id(named, partition=partition)
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
