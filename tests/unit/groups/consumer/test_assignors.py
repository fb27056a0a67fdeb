"""The assignors: what they promise for any members, topics and history."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.groups.consumer.assignors import ASSIGNORS, Partitions, Subscriber

uniform, ranges = ASSIGNORS["uniform"], ASSIGNORS["range"]
TOPICS = [UUID(int=number) for number in range(1, 6)]
MEMBERS = [f"m{number}" for number in range(8)]

counts = st.fixed_dictionaries({topic: st.integers(1, 12) for topic in TOPICS})
some_topics = st.frozensets(st.sampled_from(TOPICS), max_size=5)
some_members = st.sets(st.sampled_from(MEMBERS), min_size=1)
subscriptions = st.dictionaries(st.sampled_from(MEMBERS), some_topics, min_size=1)


@st.composite
def histories(draw: st.DrawFn) -> Partitions:
    """Any target of the past, of topics and partitions that may be gone."""
    return draw(
        st.dictionaries(
            st.sampled_from([*TOPICS, UUID(int=99)]),
            st.frozensets(st.integers(0, 15), min_size=1, max_size=6),
            max_size=3,
        )
    )


def subscribe(
    wanted: Mapping[str, frozenset[UUID]], targets: Mapping[str, Partitions] | None = None
) -> dict[str, Subscriber]:
    targets = targets or {}
    return {m: Subscriber(None, topics, targets.get(m, {})) for m, topics in wanted.items()}


def flat(assignment: Mapping[str, Partitions]) -> dict[tuple[UUID, int], str]:
    """The owner of each partition; fails if two members have one."""
    owners: dict[tuple[UUID, int], str] = {}
    for member_id, partitions in assignment.items():
        for topic, numbers in partitions.items():
            assert numbers, "a topic without partitions is left out"
            for number in numbers:
                assert (topic, number) not in owners
                owners[topic, number] = member_id
    return owners


def sizes(assignment: Mapping[str, Partitions]) -> list[int]:
    return [sum(map(len, partitions.values())) for partitions in assignment.values()]


@pytest.mark.parametrize("name", ASSIGNORS)
@given(data=st.data())
def test_every_partition_goes_to_exactly_one_subscriber(name: str, data: st.DataObject) -> None:
    wanted, partitions = data.draw(subscriptions), data.draw(counts)
    targets = {member_id: data.draw(histories()) for member_id in wanted}
    owners = flat(ASSIGNORS[name](subscribe(wanted, targets), partitions))
    for (topic, _), member_id in owners.items():
        assert topic in wanted[member_id]
    read = frozenset[UUID]().union(*wanted.values())
    assert owners.keys() == {(t, number) for t in read for number in range(partitions[t])}


@given(members=some_members, topics=some_topics, partitions=counts, data=st.data())
def test_uniform_is_balanced_within_one_for_equal_subscriptions(
    members: set[str], topics: frozenset[UUID], partitions: dict[UUID, int], data: st.DataObject
) -> None:
    targets = {member_id: data.draw(histories()) for member_id in members}
    found = sizes(uniform(subscribe(dict.fromkeys(members, topics), targets), partitions))
    assert max(found) - min(found) <= 1


@given(wanted=subscriptions, partitions=counts)
def test_no_single_move_improves_a_uniform_assignment(
    wanted: dict[str, frozenset[UUID]], partitions: dict[UUID, int]
) -> None:
    found = uniform(subscribe(wanted), partitions)
    load = dict(zip(found, sizes(found), strict=True))
    for (topic, _), owner in flat(found).items():
        for member_id, topics in wanted.items():
            if topic in topics:
                assert load[owner] - load[member_id] <= 1


@pytest.mark.parametrize("name", ASSIGNORS)
@given(wanted=subscriptions, partitions=counts)
def test_an_unchanged_group_keeps_its_assignment(
    name: str, wanted: dict[str, frozenset[UUID]], partitions: dict[UUID, int]
) -> None:
    assign = ASSIGNORS[name]
    first = assign(subscribe(wanted), partitions)
    again = assign(subscribe(wanted, first), partitions)
    assert all(again[member_id] is first[member_id] for member_id in first)


@given(members=some_members, topics=some_topics, partitions=counts)
def test_uniform_moves_only_what_a_leaving_member_had(
    members: set[str], topics: frozenset[UUID], partitions: dict[UUID, int]
) -> None:
    members = members | {"leaver"}
    first = uniform(subscribe(dict.fromkeys(members, topics)), partitions)
    rest = dict.fromkeys(members - {"leaver"}, topics)
    if not rest:
        return
    before, after = flat(first), flat(uniform(subscribe(rest, first), partitions))
    moved = {key for key, owner in before.items() if after[key] != owner}
    assert moved == {key for key, owner in before.items() if owner == "leaver"}


@given(members=some_members, topics=some_topics, partitions=counts)
def test_uniform_moves_to_a_new_member_only_and_only_its_share(
    members: set[str], topics: frozenset[UUID], partitions: dict[UUID, int]
) -> None:
    first = uniform(subscribe(dict.fromkeys(members, topics)), partitions)
    wanted = dict.fromkeys([*members, "comer"], topics)
    second = uniform(subscribe(wanted, first), partitions)
    before, after = flat(first), flat(second)
    moved = {key for key, owner in after.items() if before[key] != owner}
    assert moved == {key for key, owner in after.items() if owner == "comer"}
    assert len(moved) <= -(-len(after) // len(wanted))


@given(members=some_members, partitions=st.integers(1, 20))
def test_range_splits_equal_topics_equally(members: set[str], partitions: int) -> None:
    equal = dict.fromkeys(TOPICS, partitions)
    found = ranges(subscribe(dict.fromkeys(members, frozenset(TOPICS))), equal)
    for mine in found.values():
        assert len(set(mine.values())) <= 1
        assert set(mine) in (set(), set(TOPICS))


@given(wanted=subscriptions, partitions=counts)
def test_range_gives_consecutive_partitions_whose_counts_differ_by_at_most_one(
    wanted: dict[str, frozenset[UUID]], partitions: dict[UUID, int]
) -> None:
    found = ranges(subscribe(wanted), partitions)
    shares: dict[UUID, Counter[int]] = {topic: Counter() for topic in TOPICS}
    for member_id, topics in wanted.items():
        for topic in topics:
            numbers = sorted(found[member_id].get(topic, ()))
            assert all(b == a + 1 for a, b in pairwise(numbers))
            shares[topic][len(numbers)] += 1
    for lengths in shares.values():
        assert not lengths or max(lengths) - min(lengths) <= 1


def test_range_puts_static_members_first_by_their_instance() -> None:
    topic = TOPICS[0]
    members = {
        "a": Subscriber(None, frozenset({topic}), {}),
        "z": Subscriber("i1", frozenset({topic}), {}),
        "b": Subscriber("i2", frozenset({topic}), {}),
    }
    found = ranges(members, {topic: 3})
    assert [found[m][topic] for m in ("z", "b", "a")] == [{0}, {1}, {2}]


@pytest.mark.parametrize("name", ASSIGNORS)
def test_no_members_get_nothing(name: str) -> None:
    assert ASSIGNORS[name]({}, {}) == {}
