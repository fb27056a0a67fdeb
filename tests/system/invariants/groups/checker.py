"""Whether groups keep their promises, as a pure function of what was done and told.

- Every acknowledged record is processed by each group at least once.
- No partition has two owners in one generation, or at one member epoch.
- A member goes on where its group had committed, skips nothing and does not go back.
- A committed offset never goes back, neither by an acknowledged commit nor in what is read.
- A member that others have replaced cannot commit: who commits for a partition after it was
  given to another in a later generation is refused.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.system.invariants.groups.history import (
    UNKNOWN,
    AcknowledgedCommit,
    Claim,
    GroupHistory,
    Reading,
)

Stream = tuple[str, int]
"""A group and a partition."""


def violations(history: GroupHistory) -> list[str]:
    """Every broken promise, in words; empty where there is none."""
    return [
        *_processed(history),
        *_one_owner(history.claims),
        *_no_jumps(history.readings),
        *_never_back(history),
        *_late_commits_are_refused(history.claims, history.committed),
    ]


def _processed(history: GroupHistory) -> Iterator[str]:
    for group, processed in history.processed.items():
        missed = sorted(history.produced - processed)
        if missed:
            partition, offset = missed[0]
            yield (
                f"{group}: {len(missed)} records were never processed, "
                f"the first at {offset} of partition {partition}"
            )


def _one_owner(claims: Sequence[Claim]) -> Iterator[str]:
    owners: dict[tuple[Stream, int], str] = {}
    for claim in claims:
        if claim.generation == UNKNOWN:
            continue
        for partition in claim.partitions:
            stream = (claim.group, partition)
            other = owners.setdefault((stream, claim.generation), claim.owner)
            if other != claim.owner:
                yield (
                    f"{claim.group}: partition {partition} has two owners in generation "
                    f"{claim.generation}: {other} and {claim.owner}"
                )


def _no_jumps(readings: Sequence[Reading]) -> Iterator[str]:
    for reading in readings:
        expected = reading.start
        for offset in reading.offsets:
            if expected is not None and offset != expected:
                went = "skipped" if offset > expected else "went back"
                yield (
                    f"{reading.group}: a member of partition {reading.partition} {went} "
                    f"from {expected} to {offset}"
                )
            expected = offset + 1


@dataclass(frozen=True, slots=True)
class _Seen:
    offset: int
    how: str
    invoked: float
    completed: float


def _never_back(history: GroupHistory) -> Iterator[str]:
    seen: dict[Stream, list[_Seen]] = defaultdict(list)
    for one in history.committed:
        how = f"a commit of {one.owner}"
        seen[one.group, one.partition].append(_Seen(one.offset, how, one.invoked, one.completed))
    for read in history.fetched:
        how = f"a read through broker {read.broker}"
        seen[read.group, read.partition].append(
            _Seen(read.offset, how, read.invoked, read.completed)
        )
    for (group, partition), each in seen.items():
        ended = sorted(each, key=lambda one: one.completed)
        most: _Seen | None = None
        place = 0
        for later in sorted(each, key=lambda one: one.invoked):
            while place < len(ended) and ended[place].completed < later.invoked:
                if most is None or ended[place].offset > most.offset:
                    most = ended[place]
                place += 1
            if most is not None and later.offset < most.offset:
                yield (
                    f"{group}: the committed offset of partition {partition} went back from "
                    f"{most.offset}, by {most.how}, to {later.offset}, by {later.how} begun "
                    f"{later.invoked - most.completed:.3f} s after; commits of {later.offset}: "
                    + (_attempts(history, (group, partition), later) or "none")
                )


def _attempts(history: GroupHistory, stream: Stream, read: _Seen) -> str:
    """Who tried to commit what was read, when, and whether that was acknowledged."""
    answered = {
        (one.group, one.partition, one.owner, one.invoked): one.completed
        for one in history.committed
    }
    told = []
    for one in history.tried:
        if ((one.group, one.partition), one.offset) != (stream, read.offset):
            continue
        completed = answered.get((one.group, one.partition, one.owner, one.invoked))
        told.append(
            f"by {one.owner} in generation {one.generation} {read.invoked - one.invoked:.3f} s "
            "before the read, "
            + ("not acknowledged" if completed is None
               else f"acknowledged {read.invoked - completed:.3f} s before it")
        )  # fmt: skip
    return "; ".join(told)


def _late_commits_are_refused(
    claims: Sequence[Claim], committed: Sequence[AcknowledgedCommit]
) -> Iterator[str]:
    given: dict[Stream, list[Claim]] = defaultdict(list)
    for claim in claims:
        for partition in claim.partitions:
            given[claim.group, partition].append(claim)
    for commit in committed:
        if commit.generation == UNKNOWN:
            continue
        for claim in given[commit.group, commit.partition]:
            if (
                claim.owner != commit.owner
                and claim.generation > commit.generation
                and claim.at < commit.invoked
            ):
                yield (
                    f"{commit.group}: {commit.owner} committed {commit.offset} of partition "
                    f"{commit.partition} in generation {commit.generation}, after {claim.owner} "
                    f"was given it in generation {claim.generation}"
                )
                break
