"""The two kinds of groups behind one door: making, restoring, and telling them apart."""

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
from headwater.groups.machine import Machine
from headwater.groups.settings import GroupSettings
from headwater.meta import keys
from headwater.meta.store import Entry
from headwater.meta.values import Value, encode


class OffsetsMark(Value):
    """Says that a group has committed offsets."""


HAS_OFFSETS: Final = encode(OffsetsMark())


def restore(
    name: str, records: Mapping[str, bytes], settings: GroupSettings, rng: Random, now: float
) -> Machine | None:
    """The machine whose records those are; None where the group only has offsets."""
    if GROUP in records:
        return ConsumerGroup.restore(name, records, settings, rng, now)
    if HEADER in records:
        return ClassicGroup.restore(name, records, settings, rng, now)
    return None


def fill(
    shard: Shard[Group], entries: Sequence[Entry], settings: GroupSettings, rng: Random, now: float
) -> list[Group]:
    """Give a shard the groups that those records say."""
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
        group.machine = restore(name, records, settings, rng, now)
        groups.append(group)
    return groups
