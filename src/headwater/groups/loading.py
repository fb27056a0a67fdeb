"""Restores groups of both kinds from their records."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final
from urllib.parse import unquote

from headwater.coordination.shards import Shard
from headwater.groups.classic.group import ClassicGroup
from headwater.groups.classic.records import HEADER
from headwater.groups.consumer.group import ConsumerGroup
from headwater.groups.consumer.records import GROUP
from headwater.groups.group import OFFSETS_MARK, Group
from headwater.groups.machine import GroupMachine
from headwater.groups.settings import GroupSettings
from headwater.meta import keys
from headwater.meta.store import Entry
from headwater.meta.values import Value, encode


class OffsetsMark(Value):
    """The value of ``OFFSETS_MARK``."""


HAS_OFFSETS: Final = encode(OffsetsMark())


def restore_machine(
    name: str, records: Mapping[str, bytes], settings: GroupSettings, rng: Random, now: float
) -> GroupMachine | None:
    """Restore a group's machine from its records; None if the group only has offsets."""
    if GROUP in records:
        return ConsumerGroup.restore(name, records, settings, rng, now)
    if HEADER in records:
        return ClassicGroup.restore(name, records, settings, rng, now)
    return None


def load_groups(
    shard: Shard[Group], entries: Sequence[Entry], settings: GroupSettings, rng: Random, now: float
) -> list[Group]:
    """Restore all groups of a shard from their records."""
    groups = []
    prefix = keys.group_records(shard.number)
    by_group: dict[str, dict[str, bytes]] = {}
    for entry in entries:
        name, record = entry.key.removeprefix(prefix).split("/", 1)
        by_group.setdefault(unquote(name), {})[record] = entry.value
    for name, records in by_group.items():
        group = shard.entry(name)
        group.has_offsets = records.pop(OFFSETS_MARK, None) is not None
        group.records = set(records)
        group.machine = restore_machine(name, records, settings, rng, now)
        groups.append(group)
    return groups
