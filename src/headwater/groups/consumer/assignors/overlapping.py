"""``uniform`` for members with different subscriptions: a greedy assignment, then improvements.

As in Kafka, members with equal subscriptions are balanced, and all others nearly so.
"""

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from uuid import UUID

from headwater.groups.consumer.assignors.spec import Partitions, Subscriber

__all__ = ("assign_overlapping",)

_MAX_ROUNDS = 16
"""Kafka's bound: each round about halves the remaining imbalance."""
_MAX_STEPS = 400_000
"""Upper bound on the members' topics that all rounds together process; one round always runs."""


def assign_overlapping(
    members: Mapping[str, Subscriber], counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    plan = _Plan(members, counts)
    for topic in plan.topics:
        plan.assign_rest(topic)
    steps = sum(len(member.topics) for member in members.values())
    for _ in range(max(1, min(_MAX_ROUNDS, _MAX_STEPS // max(1, steps)))):
        if not sum([plan.balance(topic) for topic in plan.topics]):
            break
    return plan.targets()


class _Plan:
    """The assignment in progress; members are numbered in the order of their ids."""

    def __init__(self, members: Mapping[str, Subscriber], counts: Mapping[UUID, int]) -> None:
        self._members = members
        self._order = sorted(members)
        self._subscribers: dict[UUID, list[int]] = {}
        for number, member_id in enumerate(self._order):
            for topic in members[member_id].topics:
                self._subscribers.setdefault(topic, []).append(number)
        self._load = [0] * len(self._order)
        self._owners = {topic: [-1] * counts[topic] for topic in self._subscribers}
        for number, member_id in enumerate(self._order):
            self._keep(number, members[member_id])
        # Topics with the most partitions per subscriber leave the least choice, so they come first.
        self.topics = sorted(
            self._subscribers,
            key=lambda topic: (
                -counts[topic] / len(self._subscribers[topic]),
                len(self._subscribers[topic]),
                topic,
            ),
        )

    def _keep(self, number: int, member: Subscriber) -> None:
        for topic, partitions in member.target.items():
            if topic not in member.topics:
                continue
            owners = self._owners[topic]
            for partition in partitions:
                if partition < len(owners) and owners[partition] < 0:
                    owners[partition] = number
                    self._load[number] += 1

    def _by_load(self, numbers: Iterable[int]) -> list[tuple[int, int]]:
        heap = [(self._load[number], number) for number in numbers]
        heapify(heap)
        return heap

    def assign_rest(self, topic: UUID) -> None:
        """Give every unassigned partition to the least loaded subscriber."""
        owners = self._owners[topic]
        least = self._by_load(self._subscribers[topic])
        for partition, owner in enumerate(owners):
            if owner < 0:
                load, number = least[0]
                heapreplace(least, (load + 1, number))
                owners[partition] = number
                self._load[number] += 1

    def balance(self, topic: UUID) -> int:
        """Move partitions from the most to the least loaded subscriber until they are balanced."""
        subscribers = self._subscribers[topic]
        loads = [self._load[number] for number in subscribers]
        if max(loads) - min(loads) <= 1:
            return 0
        held: dict[int, list[int]] = {}
        owners = self._owners[topic]
        for partition, owner in enumerate(owners):
            held.setdefault(owner, []).append(partition)
        least = self._by_load(subscribers)
        most = [(-self._load[number], -number) for number in held]
        heapify(most)
        moves = 0
        while most:
            load, giver = -most[0][0], -most[0][1]
            if (
                load != self._load[giver]
            ):  # it received partitions in this round, so its heap entry is out of date
                heappop(most)
                continue
            least_load, taker = least[0]
            if least_load != self._load[taker]:  # it gave partitions away in this round
                heapreplace(least, (self._load[taker], taker))
                continue
            if load - least_load <= 1:
                break
            partition = held[giver].pop()
            owners[partition] = taker
            self._load[giver] -= 1
            self._load[taker] += 1
            heapreplace(least, (least_load + 1, taker))
            heappop(most)
            if held[giver]:
                heappush(most, (-self._load[giver], -giver))
            moves += 1
        return moves

    def targets(self) -> dict[str, Partitions]:
        found: list[dict[UUID, set[int]]] = [{} for _ in self._order]
        for topic, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                found[owner].setdefault(topic, set()).add(partition)
        targets: dict[str, Partitions] = {}
        for number, member_id in enumerate(self._order):
            before = self._members[member_id].target
            mine = {topic: frozenset(partitions) for topic, partitions in found[number].items()}
            targets[member_id] = before if before == mine else mine
        return targets
