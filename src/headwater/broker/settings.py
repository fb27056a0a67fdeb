"""The section `broker`."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from headwater.setting_types import HostPortText, Natural, Positive
from headwater.topic_config.values import INT_MAX

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The broker: its id, its listener and its limits. Kafka's names are in parentheses.

    A field without a description is not a setting of operators.
    """

    id: Annotated[
        int,
        Meta(ge=0, le=2**31 - 1, description="This broker's id; worker N has this id + N."),
    ] = 1
    listen: Annotated[
        HostPortText,
        Meta(description="Address that clients connect to; worker N listens on this port + N."),
    ] = "127.0.0.1:9092"
    advertise: Annotated[
        HostPortText | None,
        Meta(description="Address that Metadata gives to clients; `listen` when not set."),
    ] = None
    rack: Annotated[
        str | None,
        Meta(
            description="The zone that this broker runs in (`broker.rack`). A client names its "
            "zone in client.id, as zone_id=NAME, or in client.rack."
        ),
    ] = None
    workers: Annotated[
        int, Meta(ge=1, le=256, description="Number of broker processes; at most one per core.")
    ] = 1
    auto_create_topics: Annotated[
        bool,
        Meta(
            description="Create a topic when a client that allows it first names it "
            "(`auto.create.topics.enable`)."
        ),
    ] = True
    num_partitions: Annotated[
        Positive,
        Meta(
            description="Partitions of a topic that is created without a number (`num.partitions`)."
        ),
    ] = 1
    default_replication_factor: int = 1
    """``default.replication.factor``: only reported; the object store replicates."""
    max_request_bytes: Annotated[
        Positive,
        Meta(description="A longer request closes its connection (`socket.request.max.bytes`)."),
    ] = 100 * MIB
    max_connections: Annotated[
        Natural,
        Meta(
            description="Maximum connections (`max.connections`). One more waits, or replaces an "
            "idle one."
        ),
    ] = INT_MAX
    max_connections_per_ip: Annotated[
        Natural,
        Meta(
            description="Maximum connections from one address (`max.connections.per.ip`). One more "
            "is closed."
        ),
    ] = INT_MAX
    connections_max_idle_ms: Annotated[
        Positive,
        Meta(
            description="A connection that is idle for this time is closed "
            "(`connections.max.idle.ms`)."
        ),
    ] = 600_000
    max_queued_requests: Annotated[
        Positive,
        Meta(
            description="Unanswered requests of one connection at which the broker stops reading "
            "from it. A producer of small batches sends thousands a second."
        ),
    ] = 2048
    max_queued_bytes: Annotated[
        Positive,
        Meta(
            description="Bytes of waiting requests of one connection at which the broker stops "
            "reading from it."
        ),
    ] = 8 * MIB
    fetch_max_bytes: Annotated[
        Positive,
        Meta(
            description="Maximum bytes of one Fetch response (`fetch.max.bytes`). The first batch "
            "may exceed it."
        ),
    ] = 55 * MIB
    max_fetch_sessions: Annotated[
        Natural,
        Meta(
            description="Maximum incremental fetch sessions "
            "(`max.incremental.fetch.session.cache.slots`)."
        ),
    ] = 1000
    fetch_session_idle_ms: int = 120_000
    """An unused fetch session can be evicted for a newer one after this time."""
    max_partitions_per_request: int = 2000
    """``max.request.partition.size.limit``: the page size of DescribeTopicPartitions."""
    session_timeout_s: Annotated[
        Annotated[float, Meta(ge=1)],
        Meta(
            description="Seconds of silence after which other brokers consider this one gone "
            "(`broker.session.timeout.ms`)."
        ),
    ] = 10.0
    table_names: str = "headwater.<topic>"
    """The setting `tables.name`."""
    enforce_owner: Annotated[
        bool,
        Meta(
            description="Only the owner of a partition serves it; other brokers answer "
            "NOT_LEADER_OR_FOLLOWER."
        ),
    ] = False
    drain_timeout_s: Annotated[
        Annotated[float, Meta(ge=0)],
        Meta(
            description="Seconds that clients have to move to other brokers before this one stops."
        ),
    ] = 10.0
    stop_timeout_s: Annotated[
        Annotated[float, Meta(ge=0)],
        Meta(description="Seconds that in-flight requests have to finish when the broker stops."),
    ] = 10.0
