"""Finds the topics that OffsetCommit, OffsetFetch and OffsetDelete name, by name or by id."""

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
"""The version of OffsetCommit and of OffsetFetch that names topics by id."""


async def find_topic(
    services: Services,
    session: ClientSession,
    named: str | UUID | None,
    operation: Operation,
    *,
    partition: int = 0,
) -> Topic | int:
    """The topic with a name or an id, or the error code for each of its partitions.

    Raises ``CoordinatorNotAvailable`` if the store does not answer, because clients do not expect
    KAFKA_STORAGE_ERROR (56) from a coordinator.
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
    """The field that identifies the topic in the reply: its id or its name."""
    return {"topic_id": asked.topic_id} if by_id else {"name": asked.name}
