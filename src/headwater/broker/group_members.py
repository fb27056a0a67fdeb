"""Conversions that the handlers of group APIs share: clients, times and assignments."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext
from headwater.groups.requests import Assignment, ClientIdentity

_MILLISECOND: Final = timedelta(milliseconds=1)
_NO_ID: Final = UUID(int=0)


def client_of(context: RequestContext) -> ClientIdentity:
    """The client of a request; Kafka writes its host with a leading slash.

    >>> from headwater.broker.network.client_session import ClientSession
    >>> client_of(RequestContext(9, "app", ClientSession("PLAINTEXT", 1, peer="127.0.0.1:40000")))
    ClientIdentity(id='app', host='/127.0.0.1')
    """
    return ClientIdentity(context.client_id or "", "/" + context.session.peer.rpartition(":")[0])


def milliseconds(time: timedelta) -> int:
    """A duration of a request as the number of milliseconds that was sent.

    >>> milliseconds(timedelta(milliseconds=-1))
    -1
    """
    return time // _MILLISECOND


def read_assignment(topics: Iterable[Any]) -> Assignment:
    """A request's partitions by topic id; the lists of a topic that is named twice are merged."""
    found: dict[UUID, set[int]] = {}
    for topic in topics:
        found.setdefault(topic.topic_id or _NO_ID, set()).update(topic.partitions)
    return {topic: tuple(sorted(partitions)) for topic, partitions in found.items()}


def show_assignment(assignment: Assignment) -> list[Values]:
    """An assignment in the form of a reply."""
    return [
        {"topic_id": topic, "partitions": partitions} for topic, partitions in assignment.items()
    ]
