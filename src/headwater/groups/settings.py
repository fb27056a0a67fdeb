"""What an operator may set about groups, with Kafka's names in the docstrings."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Times in milliseconds unless a name says otherwise."""

    initial_rebalance_delay_ms: int = 3_000
    """``group.initial.rebalance.delay.ms``: how long an empty group waits for more members."""
    min_session_timeout_ms: int = 6_000
    """``group.min.session.timeout.ms``: classic members."""
    max_session_timeout_ms: int = 1_800_000
    """``group.max.session.timeout.ms``: classic members."""
    max_size: int = 2**31 - 1
    """``group.max.size`` and ``group.consumer.max.size``: members of one group."""
    consumer_session_timeout_ms: int = 45_000
    """``group.consumer.session.timeout.ms``: members of the new protocol."""
    consumer_heartbeat_interval_ms: int = 5_000
    """``group.consumer.heartbeat.interval.ms``: what members are told."""
    consumer_regex_refresh_interval_ms: int = 600_000
    """``group.consumer.regex.refresh.interval.ms``: at the latest; a new topic does it at once."""
    consumer_migration_policy: str = "bidirectional"
    """``group.consumer.migration.policy``: bidirectional, upgrade, downgrade or disabled."""
    offsets_retention_minutes: int = 10_080
    """``offsets.retention.minutes``: an empty group's offsets go after this."""
    offsets_retention_check_interval_ms: int = 600_000
    """``offsets.retention.check.interval.ms``."""
    offset_metadata_max_bytes: int = 4_096
    """``offset.metadata.max.bytes``: the most that a client may attach to a commit."""
