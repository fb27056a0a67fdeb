"""The section `log`. Its defaults are those of a local object store."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from headwater.setting_types import Natural, Positive

KIB = 1024
MIB = 1024 * KIB
SECOND = 1000
MINUTE = 60 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The log: flushes, buffers, caches, merges and housekeeping."""

    flush_bytes: Annotated[
        Positive,
        Meta(
            description="A buffer of this size is flushed even if another flush is running. This "
            "is also the largest object of a flush. 16 MiB on a remote object store."
        ),
    ] = 8 * MIB
    flush_interval_ms: Annotated[
        Natural,
        Meta(
            description="Minimum time between two flushes. It limits the number of paid requests. "
            "200 on a remote object store."
        ),
    ] = 0
    uploads: Annotated[
        Positive,
        Meta(
            description="Maximum concurrent uploads. Commits keep their order. "
            "4 on a remote object store."
        ),
    ] = 2
    inline_bytes: Annotated[
        Natural,
        Meta(description="A flush up to this size is stored in its metadata transaction."),
    ] = 64 * KIB
    object_bytes: int = 64 * MIB
    """Size at which an object that can grow is closed. Operators cannot set it."""
    buffer_bytes: Annotated[
        Positive,
        Meta(
            description="Memory for uncommitted records (their bytes, and 3 KiB for each batch). "
            "When it is full, the broker stops reading from sockets. The in-flight requests of "
            "one connection may take about half of it. 64 MiB on a remote object store."
        ),
    ] = 24 * MIB
    append_timeout_ms: Annotated[
        Positive, Meta(description="After this time a producer gets a retriable error.")
    ] = 30 * SECOND
    cache_bytes: Annotated[
        Positive, Meta(description="Memory for cached record data, recent and prefetched.")
    ] = 96 * MIB
    read_bytes: Annotated[
        Positive, Meta(description="Minimum size of one read from a large chunk.")
    ] = 2 * MIB
    window_entries: Annotated[
        Positive, Meta(description="Recent index entries of a stream that are kept in memory.")
    ] = 128
    merge_interval_ms: Annotated[
        Positive, Meta(description="Interval between checks whether a round of merges is due.")
    ] = 1 * SECOND
    merge_age_ms: Annotated[
        Natural,
        Meta(
            description="Time from one round of merges to the next, unless many bytes wait. "
            "25000 on a remote object store."
        ),
    ] = 2 * SECOND
    merge_fan_in: Annotated[
        Annotated[int, Meta(ge=2)],
        Meta(description="Least number of index entries of similar size that a merge joins."),
    ] = 32
    merge_small_bytes: Annotated[
        Positive,
        Meta(description="Index entries of this size or larger are left to compaction."),
    ] = 1 * MIB
    merge_bytes: Annotated[
        Positive,
        Meta(
            description="Approximate size of a merged object. A merge holds one such object in "
            "memory, or five on a remote object store. 16 MiB on a remote object store."
        ),
    ] = 8 * MIB
    sweep_interval_ms: Annotated[
        Positive, Meta(description="Interval between checks of all streams for retention.")
    ] = 5 * MINUTE
    gc_interval_ms: Annotated[
        Positive, Meta(description="Interval between searches for unreferenced objects.")
    ] = 30 * SECOND
    gc_grace_ms: Annotated[
        Natural,
        Meta(description="Time that an object is kept after its last reference is removed."),
    ] = 10 * MINUTE
    orphan_grace_ms: Annotated[
        Natural,
        Meta(description="Time after a broker is gone until its uncommitted objects are deleted."),
    ] = 10 * MINUTE
    snapshot_interval_ms: Annotated[
        Natural,
        Meta(description="Interval between metadata snapshots in the object store; 0: none."),
    ] = 5 * MINUTE
    snapshots_kept: Annotated[
        Positive,
        Meta(description="Metadata snapshots that are kept, with all objects that they name."),
    ] = 3
    producer_expiration_ms: Annotated[
        Positive, Meta(description="Time after which an idle idempotent producer is forgotten.")
    ] = 24 * 60 * MINUTE


REMOTE_DEFAULTS: Final[Mapping[str, int]] = {
    "flush_interval_ms": 200,
    "flush_bytes": 16 * MIB,
    "uploads": 4,
    "buffer_bytes": 64 * MIB,
    "merge_bytes": 16 * MIB,
    "merge_age_ms": 25 * SECOND,
}
"""Defaults on a remote object store, where each request costs money and takes tens of ms.

Five flushes a second at most, until buffers fill. With four concurrent uploads, one that takes
longer than two intervals does not delay the next flush.
"""
