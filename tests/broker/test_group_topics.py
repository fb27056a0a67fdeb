"""Topics of requests about offsets, where the store is asked for them."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from headwater.broker.group_topics import find_topic
from headwater.broker.handlers import offset_commit
from headwater.broker.services import Call
from headwater.errors import CoordinatorNotAvailable, KafkaStorageError
from tests.groups.cluster import Topics


class Away(Topics):
    """Topics that cannot be looked up; says which partition was asked for."""

    async def find(self, name: str, *, partition: int = 0) -> Any:
        raise KafkaStorageError(f"{name}-{partition}")

    async def find_by_id(self, topic_id: UUID, *, partition: int = 0) -> Any:
        raise KafkaStorageError(f"{topic_id}-{partition}")


def services() -> Any:
    clock = SimpleNamespace(now_ms=lambda: 0)
    return SimpleNamespace(engine=SimpleNamespace(topics=Away()), clock=clock)


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_store_that_is_away_is_a_coordinator_that_is_not_available(*, by_id: bool) -> None:
    asked = SimpleNamespace(name="t", topic_id=UUID(int=1))
    with pytest.raises(CoordinatorNotAvailable):
        await find_topic(services(), asked, by_id=by_id)


async def test_a_commit_asks_for_the_partition_that_may_have_been_added() -> None:
    partitions = [SimpleNamespace(partition_index=number) for number in (3, 7, 5)]
    request = SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=partitions)])
    with pytest.raises(CoordinatorNotAvailable, match="t-7"):
        await offset_commit.handle(services(), request, Call(8, "app", "127.0.0.1:1"))
