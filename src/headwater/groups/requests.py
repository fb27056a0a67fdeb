"""Requests and replies of groups, independent of the versions of the wire protocol.

Handlers translate between them and Kafka's messages. ``error`` is a ``Code``.
"""

from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The client that sent a request, as DescribeGroups shows it."""

    id: str
    host: str
    """As Kafka writes it: ``/127.0.0.1``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """JoinGroup. ``protocols`` are in the client's order of preference."""

    client: ClientIdentity
    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    reason: str | None = None
    requires_known_member_id: bool
    """True from version 4 on: a dynamic member without an id first gets one with error 79."""
    supports_skipping_assignment: bool
    """True from version 9 on."""


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member in the leader's JoinGroup reply."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    error: int = 0
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    error: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    member_id: str
    instance_id: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class LeavingMember:
    member_id: str
    instance_id: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveReply:
    """LeaveGroup; ``members`` has (member id, instance id, error) for each requested member."""

    error: int = 0
    members: tuple[tuple[str, str | None, int], ...] = ()


Assignment = dict[UUID, tuple[int, ...]]
"""Partitions by topic id, each sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatRequest:
    """ConsumerGroupHeartbeat: None means "as before"."""

    client: ClientIdentity
    member_id: str
    epoch: int
    """0 joins, -1 leaves, -2 leaves temporarily (static members)."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    assignor: str | None = None
    owned: Assignment | None = None
    version: int = 1
    """From version 1 on, the member chooses its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatReply:
    error: int = 0
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberDescription:
    member_id: str
    instance_id: str | None
    client: ClientIdentity
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicDescription:
    """DescribeGroups; ``protocol_name`` is "" and metadata empty unless the group is stable."""

    error: int = 0
    message: str | None = None
    state: str = "Dead"
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[ClassicMemberDescription, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberDescription:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client: ClientIdentity
    topic_names: tuple[str, ...]
    topic_regex: str
    assigned: Assignment
    target: Assignment
    member_type: int
    """-1 unknown, 0 classic, 1 consumer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerDescription:
    """ConsumerGroupDescribe."""

    error: int = 0
    message: str | None = None
    state: str = "Dead"
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[ConsumerMemberDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """One line of ListGroups."""

    group: str
    protocol_type: str
    state: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The committed offset of one partition; ``offset`` is -1 if there is none."""

    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    committed_ms: int = 0
    expires_ms: int | None = None
    """Set only if an old client requested a retention time."""


Partition = tuple[str, int]
"""A topic's name and a partition's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """OffsetCommit; the handler has resolved the topics and answered unknown ones."""

    group: str
    member_id: str = ""
    instance_id: str | None = None
    epoch: int = -1
    version: int
    offsets: dict[Partition, CommittedOffset] = field(default_factory=dict)
