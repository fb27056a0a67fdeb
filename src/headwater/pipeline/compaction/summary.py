"""The summary of a run of the pipeline, and the interface for its progress."""

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
    """Bytes of record batches read."""
    file_bytes: int = 0
    files: int = 0
    set_aside: list[tuple[str, int, int, int, str]] = field(default_factory=list)
    """(topic, partition, start, end, reason) of ranges that could not be compacted."""
    failures: list[str] = field(default_factory=list)
    """Failures, one line each."""
    seconds: float = 0.0
    task_cpu_seconds: float = 0.0

    def finished(self, job: Job) -> None:
        """Count a finished job."""
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
    """Receives the progress of a run, from any thread."""

    def step(self, job: Job, name: str) -> None:
        """A job has passed one of ``STEPS``."""
        ...

    def tasks(self, done: int, total: int) -> None:
        """``done`` of ``total`` files of the running Spark job are written."""
        ...

    def waiting(self, reason: str) -> None:
        """The run waits for this reason; finished work stays."""
        ...


STEPS = ("created", "written", "fixed", "appended", "committed", "swapped", "finished")
"""The job is created; its files are written; its manifest is fixed; the table has its files; the
job is marked as committed; the index has its files; the job is closed."""


class NoWatcher:
    """Ignores all progress."""

    def step(self, job: Job, name: str) -> None: ...

    def tasks(self, done: int, total: int) -> None: ...

    def waiting(self, reason: str) -> None: ...
