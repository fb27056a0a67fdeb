"""The arguments and the result of an assignor."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

__all__ = ("Assignor", "Partitions", "Subscriber")

Partitions = Mapping[UUID, frozenset[int]]
"""Partitions by topic id; topics without partitions are left out."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member: the existing topics that it subscribes to, and its current target."""

    instance_id: str | None
    topics: frozenset[UUID]
    target: Partitions


Assignor = Callable[[Mapping[str, Subscriber], Mapping[UUID, int]], dict[str, Partitions]]
"""Maps members by id and partition counts by topic id to the partitions of every member.

For a member whose partitions do not change, the result is the same object as its target.
"""
