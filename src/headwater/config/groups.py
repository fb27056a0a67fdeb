"""The section of consumer groups."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

import headwater.groups.settings
from headwater.config.types import Natural, Positive

_GROUPS = headwater.groups.settings.GroupSettings()


class GroupSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Consumer groups and the offsets that they commit."""

    initial_rebalance_delay_ms: Annotated[
        Natural, Meta(description="How long an empty group waits for more members.")
    ] = _GROUPS.initial_rebalance_delay_ms
    min_session_timeout_ms: Annotated[
        Positive, Meta(description="The shortest session that a classic member may ask for.")
    ] = _GROUPS.min_session_timeout_ms
    max_session_timeout_ms: Annotated[
        Positive, Meta(description="The longest session that a classic member may ask for.")
    ] = _GROUPS.max_session_timeout_ms
    max_size: Annotated[Positive, Meta(description="The most members that a group may have.")] = (
        _GROUPS.max_size
    )
    consumer_session_timeout_ms: Annotated[
        Positive,
        Meta(description="Silence after which a member of the new protocol counts as gone."),
    ] = _GROUPS.consumer_session_timeout_ms
    consumer_heartbeat_interval_ms: Annotated[
        Positive, Meta(description="How often members of the new protocol are told to report.")
    ] = _GROUPS.consumer_heartbeat_interval_ms
    consumer_regex_refresh_interval_ms: Annotated[
        Positive,
        Meta(description="How often patterns are looked up again; a new topic does it at once."),
    ] = _GROUPS.consumer_regex_refresh_interval_ms
    consumer_migration_policy: Annotated[
        Literal["bidirectional", "upgrade", "downgrade", "disabled"],
        Meta(description="Which way a group may change between the two protocols by itself."),
    ] = "bidirectional"
    offsets_retention_minutes: Annotated[
        Positive, Meta(description="How long the offsets of a group without members are kept.")
    ] = _GROUPS.offsets_retention_minutes
    offsets_retention_check_interval_ms: Annotated[
        Positive, Meta(description="How often offsets are looked at for expiry.")
    ] = _GROUPS.offsets_retention_check_interval_ms
    offset_metadata_max_bytes: Annotated[
        Natural, Meta(description="The most that a client may attach to a committed offset.")
    ] = _GROUPS.offset_metadata_max_bytes
