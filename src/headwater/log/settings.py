"""The log's own settings, with the defaults of the embedded deployment."""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
SECOND = 1000
MINUTE = 60 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Sizes in bytes, times in milliseconds."""

    flush_bytes: int = 8 * MIB
    """A buffer this full is flushed though another flush is under way."""
    flush_interval_ms: int = 0
    """The least time between two flushes; on a paid store it bounds the number of PUTs."""
    uploads: int = 2
    """How many full buffers may be uploaded at once; their commits keep their order."""
    inline_bytes: int = 64 * KIB
    """A flush up to this size travels inside its metadata transaction."""
    object_bytes: int = 64 * MIB
    """Where objects can grow, a new one is begun past this size."""
    buffer_bytes: int = 24 * MIB
    """What producers may have in memory before the sockets are no longer read."""
    append_timeout_ms: int = 30 * SECOND
    """After this a producer gets an error that it may retry."""
    cache_bytes: int = 96 * MIB
    """Recent and read-ahead record data."""
    read_bytes: int = 2 * MIB
    """The least that is read of a large chunk at once."""
    window_entries: int = 128
    """How many recent index entries of a stream are kept in memory."""
    merge_interval_ms: int = 1 * SECOND
    """How often small neighbouring entries are merged into large objects."""
    merge_fan_in: int = 32
    """How many entries of about one size make a merge worth while."""
    merge_small_bytes: int = 1 * MIB
    """Entries of this size and more are left to compaction."""
    merge_bytes: int = 8 * MIB
    """About how much one merge puts into an object."""
    sweep_interval_ms: int = 5 * MINUTE
    """How often every stream is looked at for retention and for what others left unmerged."""
    gc_interval_ms: int = 30 * SECOND
    """How often objects without a reference are looked for."""
    gc_grace_ms: int = 10 * MINUTE
    """How long an object stays after its last reference went; longer than any request."""
    orphan_grace_ms: int = 10 * MINUTE
    """How long a broker is gone before its unfinished objects are removed."""
    snapshot_interval_ms: int = 5 * MINUTE
    """How often the metadata is copied to the object store; 0: never."""
    snapshots_kept: int = 3
    """How many such copies are kept; what they refer to is not deleted."""
    producer_expiration_ms: int = 24 * 60 * MINUTE
    """How long an idle idempotent producer is remembered."""
