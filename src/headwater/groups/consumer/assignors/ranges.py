"""The ``range`` assignor: each member gets consecutive partitions of each topic."""

from collections.abc import Mapping
from uuid import UUID

from headwater.groups.consumer.assignors.spec import Partitions, Subscriber

__all__ = ("assign_ranges",)


def assign_ranges(
    members: Mapping[str, Subscriber], counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    """All topics use the same order of members, so that equal topics are split equally.

    Static members come first, ordered by instance id: they keep their partitions when dynamic
    members join and leave.
    """
    order = sorted(members, key=lambda member_id: _sort_key(member_id, members[member_id]))
    subscribers: dict[UUID, list[str]] = {}
    for member_id in order:
        for topic in members[member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
    found: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in order}
    for topic, readers in subscribers.items():
        least, extra = divmod(counts[topic], len(readers))
        start = 0
        for index, member_id in enumerate(readers):
            end = start + least + (index < extra)
            if end > start:
                found[member_id][topic] = frozenset(range(start, end))
            start = end
    return {
        member_id: members[member_id].target if members[member_id].target == mine else mine
        for member_id, mine in found.items()
    }


def _sort_key(member_id: str, member: Subscriber) -> tuple[bool, str]:
    if member.instance_id is None:
        return True, member_id
    return False, member.instance_id
