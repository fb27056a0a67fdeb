"""What clients did and saw: the only thing that the checker looks at."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Produced:
    """One attempt to produce one batch through one broker."""

    producer: str
    idempotent: bool
    number: int
    """The batch's place in its producer's order; a retry has the same."""
    partition: int
    broker: int
    values: tuple[bytes, ...]
    offset: int | None
    """Where the broker says that it landed; None where nobody knows or it was refused."""
    error: int
    invoked: float
    completed: float
    ordered: bool = False
    """Its producer sends a batch only when the one before it was acknowledged."""
    retried: bool = False
    """Its client may have retried it; this entry covers all attempts."""
    delivered: bool = False
    """Its client reported it as delivered, though it may not know where."""


@dataclass(frozen=True, slots=True)
class Polled:
    """One answered fetch of one partition; ``records`` leaves out what lies before ``asked``."""

    connection: int
    broker: int
    partition: int
    asked: int
    error: int
    records: tuple[tuple[int, bytes], ...]
    high_watermark: int
    log_start: int
    invoked: float
    completed: float


@dataclass(frozen=True, slots=True)
class Trimmed:
    """One DeleteRecords; ``log_start`` is None where its answer was lost."""

    partition: int
    before: int
    log_start: int | None
    invoked: float


@dataclass(frozen=True, slots=True)
class FinalLog:
    """A partition read from its log start to its end through one broker, after all faults."""

    broker: int
    partition: int
    log_start: int
    high_watermark: int
    records: tuple[tuple[int, bytes], ...]


@dataclass(slots=True)
class History:
    produced: list[Produced] = field(default_factory=list)
    polled: list[Polled] = field(default_factory=list)
    trimmed: list[Trimmed] = field(default_factory=list)
    finals: list[FinalLog] = field(default_factory=list)
