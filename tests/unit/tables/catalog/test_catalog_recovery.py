"""The catalog after ``headwater restore``: no table goes back, and none is lost."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

from headwater.cluster_record import ClusterRecord
from headwater.log.formats.metadata_values import TopicRecord
from headwater.meta import keys
from headwater.tables.commit.changes import append_files
from headwater.tables.maintenance import delete_orphaned_metadata, expire_snapshots
from headwater.tables.settings import TableSettings
from tests.support.tables.catalog_keys import read_keys, write_keys
from tests.support.tables.rest_world import SCHEMA
from tests.support.tables.world import OWNER, TablesWorld, rows, span

TOPIC = UUID(int=7)
COMMITS = 25
"""More than the versions of a table's metadata that are kept."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TablesWorld]:
    made = TablesWorld.under(tmp_path, owner=replace(OWNER, topic_id=str(TOPIC)))
    write_keys(
        made,
        {
            keys.CLUSTER: ClusterRecord(id=OWNER.cluster_id),
            keys.topic(OWNER.topic): TopicRecord(id=TOPIC.bytes, streams=[100], configs={}),
        },
    )
    yield made
    made.close()


def restore(world: TablesWorld, snapshot: dict[str, bytes], *, epoch: int = 1) -> None:
    """What a restore leaves in the metadata store."""
    cluster = {keys.CLUSTER: ClusterRecord(id=OWNER.cluster_id, epoch=epoch)}
    write_keys(world, {**snapshot, **cluster}, wipe=True)


def test_a_table_is_as_far_as_it_was_when_the_store_was_lost(world: TablesWorld) -> None:
    target = world.target()
    append_files(target, [world.append(0, 0, 5)])
    snapshot = read_keys(world)
    for number in range(1, COMMITS):
        append_files(target, [world.append(0, number * 5, number * 5 + 5)])
    expire_snapshots(target, TableSettings(keep_snapshots=1, max_snapshots=1), now_ms=0)
    delete_orphaned_metadata(target, older_than_ms=-1, now_ms=2**42)
    restore(world, snapshot)
    assert rows(world.target(create=False)) == span(0, 0, COMMITS * 5)
    append_files(target, [world.append(0, COMMITS * 5, COMMITS * 5 + 3)])
    assert rows(target) == span(0, 0, COMMITS * 5 + 3)


def test_a_topics_table_that_the_snapshot_does_not_know_is_registered(world: TablesWorld) -> None:
    snapshot = read_keys(world)
    append_files(world.target(), [world.append(0, 0, 5)])
    restore(world, snapshot)
    assert rows(world.target(create=False)) == span(0, 0, 5)


def test_a_table_that_is_further_back_than_no_restore_stays(world: TablesWorld) -> None:
    """Only a restore moves a pointer: the newest file may be of a commit that lost."""
    target = world.target()
    append_files(target, [world.append(0, 0, 5)])
    known = read_keys(world)
    append_files(target, [world.append(0, 5, 9)])
    write_keys(world, known, wipe=True)
    assert rows(world.target(create=False)) == span(0, 0, 5)


def test_a_commit_that_was_begun_before_the_restore_does_not_land(world: TablesWorld) -> None:
    target = world.target()
    append_files(target, [world.append(0, 0, 5)])
    snapshot = read_keys(world)
    table = target.catalog.load_table(target.name)
    change = table.transaction().set_properties({"late": "1"})
    original = target.catalog.write_metadata  # type: ignore[attr-defined]

    def restored_meanwhile(*args: object) -> None:
        original(*args)
        restore(world, snapshot)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target.catalog, "write_metadata", restored_meanwhile)
        with pytest.raises(CommitFailedException, match="restored"):
            target.catalog.commit_table(table, change._requirements, change._updates)
    append_files(target, [world.append(0, 5, 9)])
    assert rows(world.target(create=False)) == span(0, 0, 9)


def test_users_tables_move_on_too_and_purged_ones_go(world: TablesWorld) -> None:
    catalog = world.catalog()
    catalog.create_namespace("lake")
    for name in ("kept", "purged"):
        catalog.create_table(("lake", name), SCHEMA)
    snapshot = read_keys(world)
    with catalog.load_table("lake.kept").transaction() as change:
        change.set_properties({"a": "1"})
    place = catalog.load_table("lake.purged").metadata_location
    catalog.purge_table("lake.purged")
    assert not Path(place.removeprefix("file://")).exists()
    restore(world, snapshot)
    again = world.catalog()
    assert again.load_table("lake.kept").properties["a"] == "1"
    assert again.list_tables("lake") == [("lake", "kept")]
    with pytest.raises(NoSuchTableError):
        again.load_table("lake.purged")


def test_another_table_in_the_same_place_is_not_taken_for_it(world: TablesWorld) -> None:
    catalog = world.catalog()
    catalog.create_namespace("lake")
    old = catalog.create_table("lake.t", SCHEMA)
    for number in range(3):
        with old.transaction() as change:
            change.set_properties({"n": str(number)})
    catalog.drop_table("lake.t")
    catalog.create_table("lake.t", SCHEMA, properties={"new": "yes"})
    restore(world, read_keys(world))
    assert world.catalog().load_table("lake.t").properties == {"new": "yes"}
