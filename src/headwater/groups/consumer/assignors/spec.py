"""What an assignor is given and gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

__all__ = ("Assignor", "Partitions", "Subscriber")

Partitions = Mapping[UUID, frozenset[int]]
"""Partitions by topic id; a topic without any is left out."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member: the existing topics that it subscribes to and its present target."""

    instance_id: str | None
    topics: frozenset[UUID]
    target: Partitions


Assignor = Callable[[Mapping[str, Subscriber], Mapping[UUID, int]], dict[str, Partitions]]
"""From members by id and numbers of partitions by topic to every member's partitions.

A member whose partitions stay as they were gets the very same object back.
"""
