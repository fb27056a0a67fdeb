"""What a run of the pipeline did, and who is told about it meanwhile."""

from dataclasses import dataclass, field
from typing import Protocol

from headwater.log.jobs.jobs import Job


@dataclass(slots=True)
class RunSummary:
    """The counts of one run."""

    streams: set[int] = field(default_factory=set)
    jobs: int = 0
    records: int = 0
    chunk_bytes: int = 0
    """Bytes of record batches that were read."""
    file_bytes: int = 0
    files: int = 0
    set_aside: list[tuple[str, int, int, int, str]] = field(default_factory=list)
    """(topic, partition, start, end, reason) of ranges that were left as they are."""
    failures: list[str] = field(default_factory=list)
    """What could not be done, a line for each."""
    seconds: float = 0.0
    task_cpu_seconds: float = 0.0

    def finished(self, job: Job) -> None:
        """A job's files are the log."""
        self.jobs += 1
        self.streams.add(job.stream)
        self.files += len(job.files)
        self.records += sum(file.rows for file in job.files)
        self.file_bytes += sum(file.size for file in job.files)
        self.set_aside += [(job.topic, job.partition, *parts) for parts in job.set_aside]

    def failed(self, line: str) -> None:
        if line not in self.failures:
            self.failures.append(line)

    @property
    def megabytes_per_second(self) -> float:
        return self.chunk_bytes / 1e6 / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, object]:
        return {
            "streams": len(self.streams),
            "jobs": self.jobs,
            "records": self.records,
            "bytes": self.chunk_bytes,
            "file_bytes": self.file_bytes,
            "files": self.files,
            "seconds": round(self.seconds, 3),
            "megabytes_per_second": round(self.megabytes_per_second, 1),
            "set_aside": [
                dict(zip(("topic", "partition", "start", "end", "reason"), parts, strict=True))
                for parts in self.set_aside
            ],
            "failures": self.failures,
        }


class Watcher(Protocol):
    """Is told how far a run is; may be called from other threads."""

    def step(self, job: Job, name: str) -> None:
        """A job has come past one of ``STEPS``."""
        ...

    def tasks(self, done: int, total: int) -> None:
        """So many files of the Spark job under way are written."""
        ...

    def waiting(self, reason: str) -> None:
        """Nothing moves until this is over; what was done so far stays."""
        ...


STEPS = ("created", "written", "fixed", "appended", "committed", "swapped", "finished")
"""Created; its files are there; its manifest is fixed; the table has them; the job says so; the
index has them; the job is closed."""


class NoWatcher:
    """Tells nobody."""

    def step(self, job: Job, name: str) -> None: ...

    def tasks(self, done: int, total: int) -> None: ...

    def waiting(self, reason: str) -> None: ...
