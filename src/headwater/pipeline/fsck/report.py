"""The report of a check."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Protocol


class FindingKind(StrEnum):
    """The kind of a finding, as in the JSON output."""

    INDEX = "index"
    """Offsets or sizes of an index are inconsistent."""
    MISSING = "missing-object"
    DAMAGED = "damaged-object"
    UNGUARDED = "unguarded-object"
    """An index entry's object could be deleted, because no object record protects it."""
    LEAKED = "leaked-object"
    """An object record keeps an object without any reference."""
    ORPHAN = "orphan"
    """An object that was never referred to."""
    UNKNOWN = "unknown-object"
    RELEASE = "overdue-release"
    JOB = "job"
    TABLE = "table"


REPAIRABLE = frozenset({FindingKind.ORPHAN, FindingKind.RELEASE})
"""Kinds that are always repairable. Of jobs, only abandoned ones are."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem."""

    kind: FindingKind
    subject: str
    """A partition, an object or a table."""
    problem: str
    repairable: bool = False


@dataclass(slots=True)
class Report:
    """The findings of a check, and counts of what was checked."""

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
    """Unreferenced objects within their grace time."""
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
    """Receives the progress of a check, from any thread."""

    def at(self, doing: str, done: int, total: int) -> None:
        """``done`` of ``total`` steps are done; the total is 0 if it is unknown."""
        ...


class NoCheckWatcher:
    """Ignores all progress."""

    def at(self, doing: str, done: int, total: int) -> None: ...
