"""The section of the log: flushes, objects, caches and housekeeping."""

from typing import Annotated

from msgspec import Meta, Struct

import headwater.log.settings
from headwater.config.types import Natural, Positive

_LOG = headwater.log.settings.LogSettings()


class LogSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The log: flushing, buffers, caches, merging and clean-up."""

    flush_bytes: Annotated[
        Positive | None,
        Meta(
            description="A buffer this full is flushed though a flush is under way: the largest "
            "object that a flush makes. When not set: 8 MiB on local stores, 16 MiB on others."
        ),
    ] = None
    flush_interval_ms: Annotated[
        Natural | None,
        Meta(
            description="The least time between two flushes, which bounds paid requests. "
            "When not set: 0 on local stores, 200 on others."
        ),
    ] = None
    uploads: Annotated[
        Positive | None,
        Meta(
            description="Uploads that may be under way at once; commits keep order. "
            "When not set: 2 on local stores, 4 on others."
        ),
    ] = None
    inline_bytes: Annotated[
        Natural, Meta(description="A flush up to this size travels in its metadata transaction.")
    ] = _LOG.inline_bytes
    buffer_bytes: Annotated[
        Positive | None,
        Meta(
            description="Memory for uncommitted records before sockets are no longer read: their "
            "bytes, and 3 KiB for each batch. A connection may have about "
            "half as many bytes of requests under way. When not "
            "set: 24 MiB on local stores, 64 MiB on others."
        ),
    ] = None
    append_timeout_ms: Annotated[
        Positive, Meta(description="After this a producer gets an error that it may retry.")
    ] = _LOG.append_timeout_ms
    cache_bytes: Annotated[
        Positive, Meta(description="Recent and read-ahead record data kept in memory.")
    ] = _LOG.cache_bytes
    read_bytes: Annotated[
        Positive, Meta(description="The least that is read of a large chunk at once.")
    ] = _LOG.read_bytes
    window_entries: Annotated[
        Positive, Meta(description="Recent index entries of a stream kept in memory.")
    ] = _LOG.window_entries
    merge_interval_ms: Annotated[
        Positive, Meta(description="How often small entries are merged into large objects.")
    ] = _LOG.merge_interval_ms
    merge_fan_in: Annotated[
        Annotated[int, Meta(ge=2)],
        Meta(description="Entries of about one size that make a merge worth while."),
    ] = _LOG.merge_fan_in
    merge_small_bytes: Annotated[
        Positive, Meta(description="Entries of this size and more are not merged.")
    ] = _LOG.merge_small_bytes
    merge_bytes: Annotated[
        Positive | None,
        Meta(
            description="About how much one merge puts into an object. It holds one in memory, "
            "five where objects are paid for. "
            "When not set: 8 MiB on local stores, 16 MiB on others."
        ),
    ] = None
    sweep_interval_ms: Annotated[
        Positive, Meta(description="How often every stream is looked at for retention.")
    ] = _LOG.sweep_interval_ms
    gc_interval_ms: Annotated[
        Positive, Meta(description="How often objects without a reference are looked for.")
    ] = _LOG.gc_interval_ms
    gc_grace_ms: Annotated[
        Natural, Meta(description="How long an object stays after its last reference went.")
    ] = _LOG.gc_grace_ms
    orphan_grace_ms: Annotated[
        Natural,
        Meta(description="How long a broker is gone before its unfinished objects are removed."),
    ] = _LOG.orphan_grace_ms
    snapshot_interval_ms: Annotated[
        Natural,
        Meta(description="How often the metadata is copied to the object store; 0: never."),
    ] = _LOG.snapshot_interval_ms
    snapshots_kept: Annotated[
        Positive,
        Meta(description="Copies of the metadata that are kept, with all that they refer to."),
    ] = _LOG.snapshots_kept
    producer_expiration_ms: Annotated[
        Positive, Meta(description="How long an idle idempotent producer is remembered.")
    ] = _LOG.producer_expiration_ms
