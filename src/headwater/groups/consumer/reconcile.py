"""The next step of a member from its current assignment to its target (KIP-848's reconciliation).

A partition is assigned to a new member only after the previous one has confirmed its revocation or
has left; ``taken`` says so. No partition ever has two readers, in any order of heartbeats.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from uuid import UUID

from headwater.groups.consumer.assignors import Partitions
from headwater.groups.consumer.members import CurrentAssignment, MemberState, PartitionEpochs
from headwater.groups.requests import Assignment

__all__ = ("reconcile",)

IsTaken = Callable[[UUID, int], bool]
"""Whether any member, this one included, has the partition or has not confirmed its revocation."""


def reconcile(
    current: CurrentAssignment,
    *,
    target: Partitions,
    target_epoch: int,
    topics: AbstractSet[UUID],
    subscription_changed: bool,
    owned: Assignment | None,
    taken: IsTaken,
) -> CurrentAssignment:
    """The next current assignment; the same object if nothing changes.

    ``topics`` are the topics that the member subscribes to, ``owned`` the partitions that it
    reports.
    """
    match current.state:
        case MemberState.STABLE if current.epoch == target_epoch:
            return _drop_unsubscribed(current, topics, owned) if subscription_changed else current
        case MemberState.UNREVOKED if _owns_any(owned, current.revoking):
            return _drop_unsubscribed(current, topics, owned) if subscription_changed else current
        case _:
            following = _next(current, target, target_epoch, topics, owned, taken)
            return current if current == following else following


def _owns_any(owned: Assignment | None, partitions: PartitionEpochs) -> bool:
    """Whether the member may own one of the partitions; it may if it does not report any."""
    if owned is None:
        return True
    return any(
        number in partitions.get(topic, ())
        for topic, numbers in owned.items()
        for number in numbers
    )


def _drop_unsubscribed(
    current: CurrentAssignment, topics: AbstractSet[UUID], owned: Assignment | None
) -> CurrentAssignment:
    """Revoke topics that the member no longer subscribes to, without a new target."""
    gone = [topic for topic in current.assigned if topic not in topics]
    if not gone:
        return current
    assigned = {t: numbers for t, numbers in current.assigned.items() if t in topics}
    revoking = dict(current.revoking)
    for topic in gone:
        revoking[topic] = {**revoking.get(topic, {}), **current.assigned[topic]}
    if _owns_any(owned, revoking):
        return current.at(current.epoch, MemberState.UNREVOKED, assigned, revoking)
    return current.at(current.epoch, current.state, assigned, current.revoking)


def _next(
    current: CurrentAssignment,
    target: Partitions,
    target_epoch: int,
    topics: AbstractSet[UUID],
    owned: Assignment | None,
    taken: IsTaken,
) -> CurrentAssignment:
    assigned: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    added: dict[UUID, list[int]] = {}
    waiting = False
    for topic in target.keys() | current.assigned.keys():
        wanted = target.get(topic, frozenset()) if topic in topics else frozenset()
        held = current.assigned.get(topic, {})
        if keep := {number: epoch for number, epoch in held.items() if number in wanted}:
            assigned[topic] = keep
        if drop := {number: epoch for number, epoch in held.items() if number not in wanted}:
            revoking[topic] = drop
        own = current.revoking.get(topic, {})
        missing = wanted - keep.keys()
        free = [number for number in missing if number in own or not taken(topic, number)]
        waiting = waiting or len(free) < len(missing)
        if free:
            added[topic] = free
    if revoking and _owns_any(owned, revoking):
        return current.at(current.epoch, MemberState.UNREVOKED, assigned, revoking)
    for topic, numbers in added.items():
        assigned.setdefault(topic, {}).update(dict.fromkeys(numbers, target_epoch))
    state = MemberState.UNRELEASED if waiting else MemberState.STABLE
    return current.at(target_epoch, state, assigned, {})
