"""The section `groups`."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from headwater.setting_types import Natural, Positive

MigrationPolicy: TypeAlias = Literal["bidirectional", "upgrade", "downgrade", "disabled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Consumer groups and their committed offsets. Kafka's names are in parentheses."""

    initial_rebalance_delay_ms: Annotated[
        Natural,
        Meta(
            description="Time that an empty group waits for more members "
            "(`group.initial.rebalance.delay.ms`)."
        ),
    ] = 3_000
    min_session_timeout_ms: Annotated[
        Positive,
        Meta(
            description="Shortest session timeout of a classic member "
            "(`group.min.session.timeout.ms`)."
        ),
    ] = 6_000
    max_session_timeout_ms: Annotated[
        Positive,
        Meta(
            description="Longest session timeout of a classic member "
            "(`group.max.session.timeout.ms`)."
        ),
    ] = 1_800_000
    max_size: Annotated[
        Positive,
        Meta(
            description="Maximum members of a group (`group.max.size`, `group.consumer.max.size`)."
        ),
    ] = 2**31 - 1
    consumer_session_timeout_ms: Annotated[
        Positive,
        Meta(
            description="Session timeout in the new protocol (`group.consumer.session.timeout.ms`)."
        ),
    ] = 45_000
    consumer_heartbeat_interval_ms: Annotated[
        Positive,
        Meta(
            description="Heartbeat interval in the new protocol "
            "(`group.consumer.heartbeat.interval.ms`)."
        ),
    ] = 5_000
    consumer_regex_refresh_interval_ms: Annotated[
        Positive,
        Meta(
            description="Interval between evaluations of members' topic patterns. A new topic is "
            "matched at once (`group.consumer.regex.refresh.interval.ms`)."
        ),
    ] = 600_000
    consumer_migration_policy: Annotated[
        MigrationPolicy,
        Meta(
            description="Direction in which a group may change its protocol "
            "(`group.consumer.migration.policy`)."
        ),
    ] = "bidirectional"
    offsets_retention_minutes: Annotated[
        Positive,
        Meta(
            description="Time that the offsets of a group without members are kept "
            "(`offsets.retention.minutes`)."
        ),
    ] = 10_080
    offsets_retention_check_interval_ms: Annotated[
        Positive,
        Meta(
            description="Interval between checks for expired offsets "
            "(`offsets.retention.check.interval.ms`)."
        ),
    ] = 600_000
    offset_metadata_max_bytes: Annotated[
        Natural,
        Meta(
            description="Maximum metadata that a client may attach to a committed offset "
            "(`offset.metadata.max.bytes`)."
        ),
    ] = 4_096
