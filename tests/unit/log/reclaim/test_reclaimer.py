import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import StoreUnavailable
from headwater.log.reclaim.garbage import GarbageCollector
from headwater.log.reclaim.orphans import fence
from headwater.log.reclaim.reclaimer import Reason, Reclaimer
from headwater.objects import store
from headwater.objects.memory import MemoryObjects
from headwater.telemetry.metrics import Metrics
from tests.support.log.harness import ClockByHand
from tests.support.log.restoring import OBJECTS_ONLY, RestorePlace

SRC = Path(store.__file__).parent.parent
OPENERS = {"DeletableObjects", "open_objects", "open_object_store"}
"""The type of a store that can delete, and what returns one."""


class Refusing(MemoryObjects):
    """Cannot delete one object."""

    async def delete(self, key: str) -> None:
        if key == "b":
            raise StoreUnavailable("cannot delete b")
        await super().delete(key)


async def keys(objects: MemoryObjects) -> list[str]:
    return [info.key async for info in objects.list("")]


async def test_deleted_objects_are_counted_by_reason() -> None:
    objects, metrics = MemoryObjects(clock=ClockByHand()), Metrics()
    for key in "abcd":
        await objects.put(key, [b"x"])
    reclaimer = Reclaimer(objects, metrics.objects_deleted)
    await reclaimer.delete("ab", Reason.RELEASED)
    await reclaimer.delete(["c"], Reason.ORPHANED)
    assert await keys(objects) == ["d"]
    counted = {reason: counter.value for reason, counter in metrics.objects_deleted}
    assert counted == {"released": 2, "orphaned": 1}


async def test_a_deletion_that_fails_leaves_what_is_behind_it() -> None:
    objects, metrics = Refusing(clock=ClockByHand()), Metrics()
    for key in "abc":
        await objects.put(key, [b"x"])
    with pytest.raises(StoreUnavailable):
        await Reclaimer(objects, metrics.objects_deleted).delete("abc", Reason.RELEASED)
    assert await keys(objects) == ["b", "c"]
    assert metrics.objects_deleted["released"].value == 1


async def test_a_collection_of_orphans_is_counted_as_such() -> None:
    place, metrics = RestorePlace(whole=True), Metrics()
    await place.claim()
    await place.objects.put("wal/dead/000000000001.wo", [b"x"])
    await fence(place.meta, "dead")
    reclaimer = Reclaimer(place.objects, metrics.objects_deleted)
    collector = GarbageCollector(place.meta, place.objects, reclaimer, OBJECTS_ONLY, place.clock)
    assert await collector.collect_orphans([]) == 1
    assert metrics.objects_deleted[Reason.ORPHANED].value == 1


def test_most_code_gets_objects_that_it_cannot_delete() -> None:
    """The type checker then refuses any other call of ``delete``."""
    assert not hasattr(store.ObjectStore, "delete")
    assert hasattr(store.DeletableObjects, "delete")
    assert set(modules_naming({"DeletableObjects"})) == {
        "app/object_store.py",
        "log/reclaim/reclaimer.py",
    }


def test_only_the_reclaimer_deletes_where_a_store_could() -> None:
    """A module that opens a store holds one that can delete, whatever it is declared to be."""
    opening = set(modules_naming(OPENERS))
    assert opening == {
        "app/assembly.py",
        "app/object_store.py",
        "cli/objects.py",
        "log/reclaim/reclaimer.py",
        "pipeline/cluster_stores.py",
    }
    deleting = {
        name
        for name in opening
        for node in ast.walk(ast.parse((SRC / name).read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "delete"
    }
    assert deleting == {"log/reclaim/reclaimer.py"}


def modules_naming(wanted: set[str]) -> Iterator[str]:
    """Modules outside of ``objects`` that import or use one of the names."""
    for path in SRC.rglob("*.py"):
        name = path.relative_to(SRC).as_posix()
        if name.startswith("objects/"):
            continue
        used: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Name(id=found) | ast.Attribute(attr=found) | ast.alias(name=found):
                    used.add(found)
                case _:
                    pass
        if used & wanted:
            yield name
