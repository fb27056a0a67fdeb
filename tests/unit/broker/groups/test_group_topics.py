"""Topics of offset requests that must be read from the store."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from headwater.broker.authorizer import AllowAll, Operation
from headwater.broker.cluster.view import PLAINTEXT
from headwater.broker.group_topics import find_topic
from headwater.broker.handlers import offset_commit, offset_fetch
from headwater.broker.network.client_session import ClientSession
from headwater.broker.services import RequestContext
from headwater.broker.topics.access import TopicAccess
from headwater.errors import CoordinatorNotAvailable, KafkaStorageError
from headwater.groups.requests import CommittedOffset, Partition
from headwater.wire.error_codes import Code
from tests.support.groups.cluster import SharedTopics

SESSION = ClientSession(PLAINTEXT, 1)


class UnavailableTopics(SharedTopics):
    """Topics that cannot be read; the error names the requested partition."""

    async def find(self, name: str, *, partition: int = 0) -> Any:
        raise KafkaStorageError(f"{name}-{partition}")

    async def find_by_id(self, topic_id: UUID, *, partition: int = 0) -> Any:
        raise KafkaStorageError(f"{topic_id}-{partition}")


def services() -> Any:
    clock = SimpleNamespace(now_ms=lambda: 0)
    authorizer = AllowAll()
    topics = TopicAccess(UnavailableTopics(), authorizer)
    return SimpleNamespace(topics=topics, authorizer=authorizer, clock=clock)


@pytest.mark.parametrize("named", ["t", UUID(int=1)])
async def test_an_unavailable_store_is_reported_as_coordinator_not_available(
    named: str | UUID,
) -> None:
    with pytest.raises(CoordinatorNotAvailable):
        await find_topic(services(), SESSION, named, Operation.READ)


async def test_offsets_of_all_topics_by_id_are_not_answered_partly() -> None:
    async def fetch(*_args: Any, **_kwargs: Any) -> tuple[int, dict[Partition, CommittedOffset]]:
        return 0, {("t", 0): CommittedOffset(offset=7)}

    away = services()
    away.groups = SimpleNamespace(fetch=fetch)
    request = SimpleNamespace(groups=[SimpleNamespace(group_id="g", topics=None)])
    reply = await offset_fetch.handle(away, request, RequestContext(10, "app", SESSION))
    assert [group["error_code"] for group in reply["groups"]] == [Code.COORDINATOR_LOAD_IN_PROGRESS]


async def test_a_commit_asks_for_the_partition_that_may_have_been_added() -> None:
    partitions = [SimpleNamespace(partition_index=number) for number in (3, 7, 5)]
    request = SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=partitions)])
    with pytest.raises(CoordinatorNotAvailable, match="t-7"):
        await offset_commit.handle(services(), request, RequestContext(8, "app", SESSION))
