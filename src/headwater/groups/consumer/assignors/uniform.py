"""The ``uniform`` assignor: equal numbers of partitions, with as few moves as possible."""

from collections.abc import Iterable, Mapping
from itertools import islice
from uuid import UUID

from headwater.groups.consumer.assignors.overlapping import assign_overlapping
from headwater.groups.consumer.assignors.spec import Partitions, Subscriber

__all__ = ("assign_uniformly",)


def assign_uniformly(
    members: Mapping[str, Subscriber], counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    """If all members subscribe to the same topics, their partition counts differ by at most one."""
    if not members:
        return {}
    subscriptions = {member.topics for member in members.values()}
    if len(subscriptions) > 1:
        return assign_overlapping(members, counts)
    return _assign_alike(members, {topic: counts[topic] for topic in subscriptions.pop()})


def _assign_alike(
    members: Mapping[str, Subscriber], counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    order = sorted(members)
    free = {topic: set(range(counts[topic])) for topic in sorted(counts)}
    kept = {member_id: _keep(members[member_id].target, free) for member_id in order}
    sizes = {member_id: sum(map(len, mine.values())) for member_id, mine in kept.items()}
    quotas = _quotas(sizes, sum(counts.values()))
    for member_id in order:
        surplus = sizes[member_id] - quotas[member_id]
        if surplus > 0:
            kept[member_id] = _give_up(kept[member_id], surplus, free)
    unassigned = ((topic, partition) for topic in free for partition in sorted(free[topic]))
    for member_id in order:
        missing = quotas[member_id] - sizes[member_id]
        if missing > 0:
            kept[member_id] = _take(kept[member_id], islice(unassigned, missing))
    return {
        member_id: members[member_id].target if members[member_id].target == mine else mine
        for member_id, mine in kept.items()
    }


def _keep(target: Partitions, free: dict[UUID, set[int]]) -> Partitions:
    """The partitions of a target that are still free; removes them from ``free``."""
    mine = {}
    for topic, partitions in target.items():
        if keep := partitions & free.get(topic, set()):
            mine[topic] = keep
            free[topic] -= keep
    return mine


def _quotas(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """The partition count of each member; members that have more already get the remainder."""
    least, extra = divmod(total, len(sizes))
    by_size = sorted(sizes, key=lambda member_id: sizes[member_id] <= least)
    return {member_id: least + (index < extra) for index, member_id in enumerate(by_size)}


def _give_up(mine: Partitions, surplus: int, free: dict[UUID, set[int]]) -> Partitions:
    left = dict(mine)
    for topic in sorted(mine, reverse=True):
        going = frozenset(sorted(mine[topic])[-surplus:])
        free[topic] |= going
        surplus -= len(going)
        if len(going) == len(mine[topic]):
            del left[topic]
        else:
            left[topic] = mine[topic] - going
        if not surplus:
            break
    return left


def _take(mine: Partitions, more: Iterable[tuple[UUID, int]]) -> Partitions:
    taken: dict[UUID, set[int]] = {}
    for topic, partition in more:
        taken.setdefault(topic, set()).add(partition)
    return dict(mine) | {
        topic: mine.get(topic, frozenset()) | partitions for topic, partitions in taken.items()
    }
