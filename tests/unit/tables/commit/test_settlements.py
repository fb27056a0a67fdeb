"""A table is set to what the log holds, once in a restore epoch, and takes nothing of another."""

from dataclasses import replace

import pytest

from headwater.errors import TableMismatch
from headwater.pipeline.compaction.table_commits import TableCommits
from headwater.pipeline.metadata_reads import StoredTopic
from headwater.tables.commit.changes import (
    Settlement,
    append_files,
    is_settled,
    missing_files,
    remove_files,
    settle_files,
)
from headwater.tables.commit.watermarks import watermarks
from headwater.tables.topic_tables import TOPIC_ID
from tests.support.tables.world import NAME, OWNER, TablesWorld, rows, span


def restored(world: TablesWorld, epoch: int = 1) -> TablesWorld:
    return replace(world, owner=replace(world.owner, epoch=epoch))


def test_a_table_is_set_to_the_files_of_the_log(world: TablesWorld) -> None:
    before = world.target()
    kept, cut = world.append(0, 0, 5), world.append(0, 5, 9)
    append_files(before, [kept])
    append_files(before, [cut])
    lacked = world.append(0, 5, 7, job="lacked")
    target = restored(world).target(create=False)
    assert not is_settled(target)
    (own,), (other,) = kept.files, lacked.files
    assert missing_files(target, [own.key, other.key]) == [other.key]
    settlement = Settlement(files={own.key: None, other.key: other}, watermarks={100: 7})
    settled = settle_files(target, settlement)
    assert (settled.added, settled.removed) == ((other.key,), (cut.files[0].key,))
    assert rows(target) == span(0, 0, 7)
    assert watermarks(target.catalog.load_table(NAME).properties) == {100: 7}
    append_files(target, [world.append(0, 7, 9, job="next")])
    assert rows(target) == span(0, 0, 9)
    assert is_settled(target)
    assert settle_files(target, settlement).removed == (), "it is done once"
    assert rows(target) == span(0, 0, 9)


def test_a_table_that_was_never_made_gets_the_files_that_a_restore_put_back(
    world: TablesWorld,
) -> None:
    """A job that wrote its files and ended there made no table: the log has them all the same."""
    topic = StoredTopic("orders", OWNER.topic_id, (OWNER.first_stream,), {})
    found = world.append(0, 0, 5)
    (file,) = found.files
    commits = TableCommits(
        world.settings,
        data=world.directory,
        metadata_url=world.metadata_url,
        objects_url=world.objects_url,
        cluster_id=OWNER.cluster_id,
        epoch=1,
    )
    assert commits.missing(topic, []) is None, "a table that would be empty is not made"
    assert commits.missing(topic, [file.key]) == [file.key]
    settlement = Settlement(files={file.key: file}, watermarks={OWNER.first_stream: 5})
    assert commits.settle(topic, settlement).added == (file.key,)
    assert commits.missing(topic, [file.key]) is None
    target = restored(world).target(create=False)
    assert append_files(target, [world.append(0, 5, 9, job="next")]).refused == {}
    assert rows(target) == span(0, 0, 9)
    commits.close()


def test_the_table_of_a_topic_that_was_created_again_does_not_hold_up_the_next_one(
    world: TablesWorld,
) -> None:
    append_files(world.target(), [world.append(0, 0, 5)])
    topic = StoredTopic("orders", "id-2", (200,), {})
    commits = TableCommits(
        world.settings,
        data=world.directory,
        metadata_url=world.metadata_url,
        objects_url=world.objects_url,
        cluster_id=OWNER.cluster_id,
        epoch=1,
    )
    assert commits.missing(topic, []) is None
    assert commits.missing(topic, ["tables/id-2/file"]) == ["tables/id-2/file"]
    assert commits.catalog.load_table(NAME).properties[TOPIC_ID] == "id-2"
    commits.close()


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_table_takes_nothing_from_a_process_of_another_restore_epoch(
    world: TablesWorld, epoch: int
) -> None:
    target = restored(world).target()
    there = world.append(0, 0, 5)
    append_files(target, [there])
    other = restored(world, epoch).target(create=False)
    append = world.append(0, 5, 9)
    for change in (
        lambda: append_files(other, [append]),
        lambda: remove_files(other, [there.files[0].key]),
    ):
        with pytest.raises(TableMismatch, match="has restore epoch 1, and the cluster has"):
            change()
    assert rows(target) == span(0, 0, 5)
