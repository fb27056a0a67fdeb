"""One member's next step from what it holds to its target (KIP-848's reconciliation).

A partition goes to its next reader only when its last one said that it gave it up, or is gone:
that is what ``taken`` says. So no partition has two readers, whatever order heartbeats come in.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from uuid import UUID

from headwater.groups.consumer.assignors import Partitions
from headwater.groups.consumer.members import Held, Holding, MemberState
from headwater.groups.requests import Assignment

__all__ = ("reconcile",)

Taken = Callable[[UUID, int], bool]
"""A member, this one included, has that partition or did not yet give it up."""


def reconcile(
    holding: Holding,
    *,
    target: Partitions,
    target_epoch: int,
    topics: AbstractSet[UUID],
    subscription_changed: bool,
    owned: Assignment | None,
    taken: Taken,
) -> Holding:
    """``topics`` is what the member subscribes to, ``owned`` what it says that it reads.

    Returns the very same object where nothing changes.
    """
    match holding.state:
        case MemberState.STABLE if holding.epoch == target_epoch:
            return _drop_unsubscribed(holding, topics, owned) if subscription_changed else holding
        case MemberState.UNREVOKED if _owns_any(owned, holding.revoking):
            return _drop_unsubscribed(holding, topics, owned) if subscription_changed else holding
        case _:
            following = _next(holding, target, target_epoch, topics, owned, taken)
            return holding if holding == following else following


def _owns_any(owned: Assignment | None, partitions: Held) -> bool:
    """A member that does not say what it owns may own all."""
    if owned is None:
        return True
    return any(
        number in partitions.get(topic, ())
        for topic, numbers in owned.items()
        for number in numbers
    )


def _drop_unsubscribed(
    holding: Holding, topics: AbstractSet[UUID], owned: Assignment | None
) -> Holding:
    """Take back topics that the member does not want any more, without waiting for a target."""
    gone = [topic for topic in holding.assigned if topic not in topics]
    if not gone:
        return holding
    assigned = {t: numbers for t, numbers in holding.assigned.items() if t in topics}
    revoking = dict(holding.revoking)
    for topic in gone:
        revoking[topic] = {**revoking.get(topic, {}), **holding.assigned[topic]}
    if _owns_any(owned, revoking):
        return holding.at(holding.epoch, MemberState.UNREVOKED, assigned, revoking)
    return holding.at(holding.epoch, holding.state, assigned, holding.revoking)


def _next(
    holding: Holding,
    target: Partitions,
    target_epoch: int,
    topics: AbstractSet[UUID],
    owned: Assignment | None,
    taken: Taken,
) -> Holding:
    assigned: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    coming: dict[UUID, list[int]] = {}
    waiting = False
    for topic in target.keys() | holding.assigned.keys():
        wanted = target.get(topic, frozenset()) if topic in topics else frozenset()
        held = holding.assigned.get(topic, {})
        if keep := {number: epoch for number, epoch in held.items() if number in wanted}:
            assigned[topic] = keep
        if drop := {number: epoch for number, epoch in held.items() if number not in wanted}:
            revoking[topic] = drop
        own = holding.revoking.get(topic, {})
        missing = wanted - keep.keys()
        free = [number for number in missing if number in own or not taken(topic, number)]
        waiting = waiting or len(free) < len(missing)
        if free:
            coming[topic] = free
    if revoking and _owns_any(owned, revoking):
        return holding.at(holding.epoch, MemberState.UNREVOKED, assigned, revoking)
    for topic, numbers in coming.items():
        assigned.setdefault(topic, {}).update(dict.fromkeys(numbers, target_epoch))
    state = MemberState.UNRELEASED if waiting else MemberState.STABLE
    return holding.at(target_epoch, state, assigned, {})
