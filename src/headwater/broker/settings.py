"""The broker's own settings, with Kafka's names in their docstrings where it has them."""

from dataclasses import dataclass

from headwater.topic_config.values import INT_MAX

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Sizes in bytes, times in milliseconds unless a name says otherwise."""

    auto_create_topics: bool = True
    """``auto.create.topics.enable``: a Metadata request for a missing topic creates it."""
    num_partitions: int = 1
    """``num.partitions``: the number of partitions of a topic that is created without one."""
    default_replication_factor: int = 1
    """``default.replication.factor``: reported only; the object store replicates."""
    max_request_bytes: int = 100 * MIB
    """``socket.request.max.bytes``: a larger request closes its connection."""
    max_connections: int = INT_MAX
    """``max.connections``: further ones wait, or replace a connection that is idle."""
    max_connections_per_ip: int = INT_MAX
    """``max.connections.per.ip``: further ones from the same address are closed."""
    connections_max_idle_ms: int = 600_000
    """``connections.max.idle.ms``: a connection that is idle for this long is closed."""
    max_queued_requests: int = 2048
    """A connection with this many unanswered requests is not read.

    A producer with small batches sends thousands per second, and each waits for its flush.
    """
    max_queued_bytes: int = 8 * MIB
    """A connection with this many bytes of waiting requests is not read."""
    fetch_max_bytes: int = 55 * MIB
    """``fetch.max.bytes``: most bytes of records in one Fetch reply; its first batch may exceed
    it."""
    max_fetch_sessions: int = 1000
    """``max.incremental.fetch.session.cache.slots``."""
    fetch_session_idle_ms: int = 120_000
    """A fetch session that was used within this time is not evicted by a newer one."""
    max_partitions_per_request: int = 2000
    """``max.request.partition.size.limit``: the page size of DescribeTopicPartitions."""
    session_timeout_s: float = 10.0
    """``broker.session.timeout.ms``: a broker whose session is not renewed for this long is no
    longer registered."""
    table_names: str = "headwater.<topic>"
    """The template of the tables' names."""
    rack: str | None = None
    """``broker.rack``: the zone that this broker runs in."""
    enforce_owner: bool = False
    """Only the owner of a partition serves it; other brokers answer NOT_LEADER_OR_FOLLOWER."""
    drain_timeout_s: float = 10.0
    """A broker that stops waits this long for its clients to move to other brokers."""
    stop_timeout_s: float = 10.0
    """A broker that stops waits this long for requests in flight."""
