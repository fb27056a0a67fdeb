"""The sections of a broker process: itself, its metrics and its own log."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

import headwater.broker.settings
from headwater.config.types import HostPort, Natural, Positive

_BROKER = headwater.broker.settings.BrokerSettings()


class BrokerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The broker: who it is, where it listens, what it takes."""

    id: Annotated[
        int,
        Meta(ge=0, le=2**31 - 1, description="This broker's id; worker N has this id + N."),
    ] = 1
    listen: Annotated[
        HostPort, Meta(description="Where clients connect; worker N listens on this port + N.")
    ] = "127.0.0.1:9092"
    advertise: Annotated[
        HostPort | None,
        Meta(description="The address that clients are told; the listening one when not set."),
    ] = None
    rack: Annotated[
        str | None,
        Meta(
            description="The zone that this broker runs in; clients name theirs in client.id, "
            "as zone_id=NAME, or in client.rack."
        ),
    ] = None
    workers: Annotated[
        int, Meta(ge=1, le=256, description="Broker processes to run, one per core at most.")
    ] = 1
    auto_create_topics: Annotated[
        bool, Meta(description="Create a topic when a client that allows it first names it.")
    ] = _BROKER.auto_create_topics
    num_partitions: Annotated[
        Positive, Meta(description="Partitions of a topic that is created without a number.")
    ] = _BROKER.num_partitions
    max_request_bytes: Annotated[
        Positive, Meta(description="A longer request closes its connection, unread.")
    ] = _BROKER.max_request_bytes
    max_connections: Annotated[
        Natural, Meta(description="Connections at one time; more wait, or push out an idle one.")
    ] = _BROKER.max_connections
    max_connections_per_ip: Annotated[
        Natural, Meta(description="Connections from one address at one time; more are closed.")
    ] = _BROKER.max_connections_per_ip
    connections_max_idle_ms: Annotated[
        Positive, Meta(description="A connection that says nothing for this long is closed.")
    ] = _BROKER.connections_max_idle_ms
    max_queued_requests: Annotated[
        Positive,
        Meta(description="Unanswered requests of a connection before it is no longer read."),
    ] = _BROKER.max_queued_requests
    max_queued_bytes: Annotated[
        Positive, Meta(description="Waiting bytes of a connection before it is no longer read.")
    ] = _BROKER.max_queued_bytes
    fetch_max_bytes: Annotated[
        Positive, Meta(description="The most that one Fetch answer carries, the first batch apart.")
    ] = _BROKER.fetch_max_bytes
    max_fetch_sessions: Annotated[Natural, Meta(description="Incremental fetch sessions kept.")] = (
        1000
    )
    session_timeout_s: Annotated[
        Annotated[float, Meta(ge=1)],
        Meta(description="Seconds of silence after which others count this broker as gone."),
    ] = _BROKER.session_timeout_s
    enforce_owner: Annotated[
        bool,
        Meta(description="Send clients to the one broker that Metadata names for a partition."),
    ] = _BROKER.enforce_owner
    drain_timeout_s: Annotated[
        Annotated[float, Meta(ge=0)],
        Meta(description="Seconds that clients get to go to other brokers before this one stops."),
    ] = _BROKER.drain_timeout_s
    stop_timeout_s: Annotated[
        Annotated[float, Meta(ge=0)],
        Meta(description="Seconds that requests under way get to finish when the broker stops."),
    ] = _BROKER.stop_timeout_s


class MetricsSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Prometheus metrics, health and readiness over HTTP."""

    listen: Annotated[
        HostPort | None,
        Meta(description="Where they are served, port + N for worker N; nowhere when not set."),
    ] = None


class LoggingSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The process's own log."""

    format: Annotated[
        Literal["auto", "json", "text"],
        Meta(description="`auto` is `text` on a terminal and one JSON object per line elsewhere."),
    ] = "auto"
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least level written.")
    ] = "info"
