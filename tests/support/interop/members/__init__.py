"""Members of consumer groups, each client's behind one small face."""

from collections.abc import Mapping
from typing import Protocol

from tests.support.interop.clients.driven import FRANZ_GO, JAVA, JAVA_NEWEST, KAFKAJS, SARAMA
from tests.support.interop.members.aiokafka import AiokafkaGroups
from tests.support.interop.members.confluent import ConfluentGroups
from tests.support.interop.members.driven import DrivenGroups
from tests.support.interop.members.kafka_python import KafkaPythonGroups
from tests.support.interop.members.state import (
    AssignmentKind,
    InteropOffset,
    MemberSetup,
    PolledState,
)


class InteropMember(Protocol):
    """A consumer in a group, which polls all the time."""

    def state(self) -> PolledState: ...

    def commit(self, offsets: Mapping[str, InteropOffset]) -> None:
        """By place, which is ``topic:partition``."""
        ...

    def leave(self) -> None:
        """Close the consumer; with automatic commits, it commits what it received."""
        ...


class GroupClient(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def kinds(self) -> tuple[AssignmentKind, ...]:
        """What it offers, its usual one first."""
        ...

    @property
    def static_kinds(self) -> tuple[AssignmentKind, ...]:
        """The kinds of assignment that it can use with ``group.instance.id``."""
        ...

    def join(self, joining: MemberSetup) -> InteropMember: ...


CLASSIC = (
    AssignmentKind.RANGE,
    AssignmentKind.ROUND_ROBIN,
    AssignmentKind.STICKY,
    AssignmentKind.COOPERATIVE,
)

GROUP_CLIENTS: tuple[GroupClient, ...] = (
    DrivenGroups(
        JAVA, (*CLASSIC, AssignmentKind.CONSUMER), (AssignmentKind.RANGE, AssignmentKind.CONSUMER)
    ),
    DrivenGroups(
        JAVA_NEWEST,
        (*CLASSIC, AssignmentKind.CONSUMER),
        (AssignmentKind.RANGE, AssignmentKind.CONSUMER),
    ),
    ConfluentGroups(),
    # See the faults of clients in ``matrix`` for its static members of the consumer protocol.
    DrivenGroups(
        FRANZ_GO, (*reversed(CLASSIC), AssignmentKind.CONSUMER), (AssignmentKind.COOPERATIVE,)
    ),
    DrivenGroups(SARAMA, CLASSIC, (AssignmentKind.RANGE,)),
    DrivenGroups(KAFKAJS, (AssignmentKind.ROUND_ROBIN,)),
    AiokafkaGroups(),
    KafkaPythonGroups(),
)
