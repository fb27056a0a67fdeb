"""What a check of a cluster found."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Protocol


class FindingKind(StrEnum):
    """What is wrong, as programs read it."""

    INDEX = "index"
    """Offsets or sizes of an index do not follow each other."""
    MISSING = "missing-object"
    DAMAGED = "damaged-object"
    UNGUARDED = "unguarded-object"
    """An index entry's object may be deleted: its record or a release says that it is free."""
    LEAKED = "leaked-object"
    """A record keeps an object that nothing refers to."""
    ORPHAN = "orphan"
    """An object that nothing ever referred to."""
    UNKNOWN = "unknown-object"
    RELEASE = "overdue-release"
    JOB = "job"
    TABLE = "table"


REPAIRABLE = frozenset({FindingKind.ORPHAN, FindingKind.RELEASE})
"""What can be mended without a loss; a job says itself whether it can be taken up."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    kind: FindingKind
    subject: str
    """A partition, an object or a table."""
    problem: str
    repairable: bool = False


@dataclass(slots=True)
class Report:
    """The findings of a check, and what was looked at."""

    findings: list[Finding] = field(default_factory=list)
    topics: int = 0
    streams: int = 0
    entries: int = 0
    objects: int = 0
    object_bytes: int = 0
    files: int = 0
    tables: int = 0
    jobs: int = 0
    waiting: int = 0
    """Objects that nothing refers to any more and whose grace time has not passed."""
    records_read: int = 0
    bytes_read: int = 0
    repairs: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(
        self, kind: FindingKind, subject: str, problem: str, *, repairable: bool = False
    ) -> None:
        finding = Finding(kind, subject, problem, repairable or kind in REPAIRABLE)
        if finding not in self.findings:
            self.findings.append(finding)

    def as_json(self) -> dict[str, object]:
        return asdict(self)


class CheckWatcher(Protocol):
    """Is told how far a check is; may be called from other threads."""

    def at(self, doing: str, done: int, total: int) -> None:
        """So much of it is done; the total is 0 where nobody knows it yet."""
        ...


class NoCheckWatcher:
    """Tells nobody."""

    def at(self, doing: str, done: int, total: int) -> None: ...
