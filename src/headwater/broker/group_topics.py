"""Topics as requests about offsets name them: by name, and by id in the newest versions."""

from typing import Any, Final
from uuid import UUID

from headwater.broker.authorizer import Operation
from headwater.broker.network.client_session import ClientSession
from headwater.broker.network.replies import Values
from headwater.broker.services import Services
from headwater.engine import Topic
from headwater.errors import (
    CoordinatorNotAvailable,
    KafkaStorageError,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

FIRST_VERSION_WITH_IDS: Final = 10
"""Of OffsetCommit and of OffsetFetch."""


async def find_topic(
    services: Services,
    session: ClientSession,
    named: str | UUID | None,
    operation: Operation,
    *,
    partition: int = 0,
) -> Topic | int:
    """The topic of a name or an id, or the code that each of its partitions gets without one.

    Raises ``CoordinatorNotAvailable`` where the store does not answer: 56 is no code that
    clients expect of a coordinator.
    """
    if named is None:
        return UnknownTopicId.code
    try:
        return await services.topics.find(session, named, operation, partition=partition)
    except (TopicAuthorizationFailed, UnknownTopicId, UnknownTopicOrPartition) as error:
        return error.code
    except KafkaStorageError as error:
        raise CoordinatorNotAvailable(f"a topic cannot be looked up: {error}") from error


def naming(asked: Any, *, by_id: bool = False) -> Values:
    """The field that names the topic in the reply as it was in the request."""
    return {"topic_id": asked.topic_id} if by_id else {"name": asked.name}
