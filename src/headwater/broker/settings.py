"""The broker's own settings, with Kafka's names in their docstrings where it has them."""

from dataclasses import dataclass

from headwater.topic_config.values import INT_MAX

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Sizes in bytes, times in milliseconds unless a name says otherwise."""

    auto_create_topics: bool = True
    """``auto.create.topics.enable``: a topic that is asked for by name comes into being."""
    num_partitions: int = 1
    """``num.partitions``: how many partitions a topic gets when nobody says."""
    default_replication_factor: int = 1
    """``default.replication.factor``: reported only; the object store replicates."""
    max_request_bytes: int = 100 * MIB
    """``socket.request.max.bytes``: a longer request closes its connection."""
    max_connections: int = INT_MAX
    """``max.connections``: more have to wait, or take the place of one that is idle."""
    max_connections_per_ip: int = INT_MAX
    """``max.connections.per.ip``: more from one address are closed."""
    connections_max_idle_ms: int = 600_000
    """``connections.max.idle.ms``: a connection that says nothing for this long is closed."""
    max_queued_requests: int = 2048
    """How many requests of one connection may be unanswered before it is no longer read.

    A producer whose batches are small sends thousands a second, and each waits for its flush.
    """
    max_queued_bytes: int = 8 * MIB
    """How many bytes of one connection may be waiting before it is no longer read."""
    fetch_max_bytes: int = 55 * MIB
    """``fetch.max.bytes``: the most that one Fetch answer carries, the first batch apart."""
    max_fetch_sessions: int = 1000
    """``max.incremental.fetch.session.cache.slots``."""
    fetch_session_idle_ms: int = 120_000
    """How long an unused fetch session is safe from being pushed out by a newer one."""
    max_partitions_per_request: int = 2000
    """``max.request.partition.size.limit``: the page size of DescribeTopicPartitions."""
    session_timeout_s: float = 10.0
    """``broker.session.timeout.ms``: a broker silent for this long is no longer registered."""
    table_names: str = "headwater.<topic>"
    """The template of the tables' names."""
    rack: str | None = None
    """``broker.rack``: the zone that this broker runs in."""
    enforce_owner: bool = False
    """Only the broker that Metadata names serves a partition; others send its clients there."""
    drain_timeout_s: float = 10.0
    """How long a broker that stops waits for its clients to go to others."""
    stop_timeout_s: float = 10.0
    """How long requests under way may take to finish when the broker stops."""
