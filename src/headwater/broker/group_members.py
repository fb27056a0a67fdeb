"""What handlers of groups share: who asks, and assignments as the protocol writes them."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from headwater.broker.network.replies import Values
from headwater.broker.services import Call
from headwater.groups.requests import Assignment, Client

_MILLISECOND: Final = timedelta(milliseconds=1)
_NO_ID: Final = UUID(int=0)


def client_of(call: Call) -> Client:
    """Who sent a request, with the host as Kafka writes it.

    >>> from headwater.broker.network.client_session import ClientSession
    >>> client_of(Call(9, "app", ClientSession("PLAINTEXT", 1, peer="127.0.0.1:40000")))
    Client(id='app', host='/127.0.0.1')
    """
    return Client(call.client_id or "", "/" + call.session.peer.rpartition(":")[0])


def milliseconds(time: timedelta) -> int:
    """A request's time as the number that was sent.

    >>> milliseconds(timedelta(milliseconds=-1))
    -1
    """
    return time // _MILLISECOND


def read_assignment(topics: Iterable[Any]) -> Assignment:
    """Partitions by topic id; a topic that is named twice keeps both lists."""
    found: dict[UUID, set[int]] = {}
    for topic in topics:
        found.setdefault(topic.topic_id or _NO_ID, set()).update(topic.partitions)
    return {topic: tuple(sorted(partitions)) for topic, partitions in found.items()}


def show_assignment(assignment: Assignment) -> list[Values]:
    """The same as a reply has it."""
    return [
        {"topic_id": topic, "partitions": partitions} for topic, partitions in assignment.items()
    ]
