"""The checker of groups complains about each broken promise, and about nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.system.invariants.groups.checker import violations
from tests.system.invariants.groups.history import (
    UNKNOWN,
    AcknowledgedCommit,
    Claim,
    Fetched,
    GroupHistory,
    Reading,
    Tried,
)

A1 = Claim("g", "a", 1, frozenset({0, 1}), 1.0)
B1 = Claim("g", "b", 1, frozenset({2}), 1.1)
A2 = Claim("g", "a", 2, frozenset({1}), 5.0)
B2 = Claim("g", "b", 2, frozenset({0, 2}), 5.1)
EARLY = AcknowledgedCommit("g", "a", 1, 0, 10, 2.0, 2.1)
LATE = AcknowledgedCommit("g", "b", 2, 0, 20, 6.0, 6.1)
READ = Fetched("g", 0, 10, 3.0, 3.1, 2)


def test_a_good_history_of_groups_has_no_violations() -> None:
    history = GroupHistory(
        produced={(0, 0), (0, 1)},
        processed={"g": {(0, 0), (0, 1), (0, 2)}},
        claims=[A1, B1, A2, B2],
        committed=[EARLY, LATE],
        fetched=[READ, replace(READ, offset=20, invoked=7.0, completed=7.1)],
    )
    assert violations(history) == []


@pytest.mark.parametrize(
    "history",
    [
        GroupHistory(claims=[A1, replace(B1, group="other", partitions=A1.partitions)]),
        GroupHistory(claims=[A1, replace(A1, at=2.0)]),
        GroupHistory(readings=[Reading("g", 0, 7, [7, 8, 9]), Reading("g", 0, 8, [8])]),
        GroupHistory(readings=[Reading("g", 0, None, [5, 6])]),
        GroupHistory(claims=[replace(A1, generation=UNKNOWN), replace(B2, generation=UNKNOWN)]),
        GroupHistory(committed=[LATE, replace(LATE, offset=5, invoked=6.05, completed=7.0)]),
        GroupHistory(committed=[replace(LATE, partition=1), EARLY]),
        GroupHistory(claims=[A1, B2], committed=[replace(EARLY, invoked=4.9, completed=9.0)]),
        GroupHistory(claims=[A1, B2], committed=[replace(EARLY, invoked=8.0, generation=UNKNOWN)]),
    ],
    ids=[
        "other group",
        "same owner",
        "given again",
        "start not known",
        "forgotten members",
        "overlapping commits",
        "other partition",
        "commit begun before",
        "generation not known",
    ],
)
def test_what_is_allowed_is_no_violation(history: GroupHistory) -> None:
    assert violations(history) == []


@pytest.mark.parametrize(
    ("history", "complaint"),
    [
        (
            GroupHistory(produced={(0, 0), (3, 7)}, processed={"g": {(0, 0)}}),
            "1 records were never processed, the first at 7 of partition 3",
        ),
        (
            GroupHistory(claims=[A1, replace(B1, partitions=frozenset({1, 2}))]),
            "partition 1 has two owners in generation 1: a and b",
        ),
        (
            GroupHistory(readings=[Reading("g", 0, 7, [7, 9])]),
            "a member of partition 0 skipped from 8 to 9",
        ),
        (
            GroupHistory(readings=[Reading("g", 0, 7, [8])]),
            "a member of partition 0 skipped from 7 to 8",
        ),
        (
            GroupHistory(readings=[Reading("g", 0, None, [7, 8, 7])]),
            "a member of partition 0 went back from 9 to 7",
        ),
        (
            GroupHistory(committed=[EARLY, replace(LATE, offset=9)]),
            "went back from 10, by a commit of a, to 9, by a commit of b",
        ),
        (
            GroupHistory(committed=[EARLY], fetched=[replace(READ, offset=0)]),
            "went back from 10, by a commit of a, to 0, by a read",
        ),
        (
            GroupHistory(fetched=[READ, replace(READ, offset=9, invoked=4.0, completed=4.1)]),
            "to 9, by a read through broker 2 begun 0.900 s after; commits of 9: none",
        ),
        (
            GroupHistory(
                tried=[
                    Tried("g", "a", 1, 0, 9, 1.0),
                    Tried("g", "a", 1, 0, 9, 1.5),
                    Tried("g", "a", 1, 0, 10, 2.0),
                    Tried("g", "a", 1, 1, 9, 2.0),
                ],
                committed=[replace(EARLY, offset=9, invoked=1.5, completed=1.9), EARLY],
                fetched=[replace(READ, offset=9)],
            ),
            "2.000 s before the read, not acknowledged; by a in generation 1 1.500 s before",
        ),
        (
            GroupHistory(claims=[A1, B2], committed=[replace(EARLY, invoked=5.2)]),
            "a committed 10 of partition 0 in generation 1, after b was given it in generation 2",
        ),
    ],
)
def test_each_broken_promise_of_groups_is_named(history: GroupHistory, complaint: str) -> None:
    (found,) = violations(history)
    assert complaint in found


def test_what_a_killed_member_wrote_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    file = tmp_path / "member"
    file.write_text(
        '{"event": "started", "partition": 0, "start": 3}\n'
        '{"event": "processed", "partition": 0, "offset": 3}\n'
        '{"event": "tried", "owner": "a", "generation": 1, "invoked": 2.0, "offsets": [[0, 4]]}\n'
        '{"event": "processed", "part'
    )
    history = GroupHistory()
    history.read("g", [file])
    assert history.processed == {"g": {(0, 3)}}
    assert history.readings == [Reading("g", 0, 3, [3])]
    assert history.tried == [Tried("g", "a", 1, 0, 4, 2.0)]
