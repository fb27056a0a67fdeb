import pytest

from headwater.errors import TableMismatch
from headwater.tables.commit.changes import Rewrite, append_files, remove_files, rewrite_files
from headwater.tables.commit.watermarks import Append, watermarks
from tests.support.tables.world import NAME, TablesWorld, rows, span


def test_files_of_many_streams_land_in_one_snapshot(world: TablesWorld) -> None:
    target = world.target()
    outcome = append_files(target, [world.append(0, 0, 5), world.append(1, 0, 3)])
    assert outcome.landed == {"j0-0-5", "j1-0-3"}
    assert outcome.refused == {}
    table = target.catalog.load_table(NAME)
    assert [one.snapshot_id for one in table.snapshots()] == [outcome.snapshot_id]
    assert rows(target) == span(0, 0, 5) + span(1, 0, 3)
    assert watermarks(table.properties) == {100: 5, 101: 3}


def test_a_repeated_append_changes_nothing(world: TablesWorld) -> None:
    target = world.target()
    appends = [world.append(0, 0, 5)]
    append_files(target, appends)
    again = append_files(world.target(create=False), appends)
    assert again.landed == {"j0-0-5"}
    assert again.snapshot_id is None
    assert rows(target) == span(0, 0, 5)


def test_a_commit_that_is_partly_there_is_completed(world: TablesWorld) -> None:
    target = world.target()
    first, second = world.append(0, 0, 5), world.append(1, 0, 5)
    append_files(target, [first])
    assert append_files(target, [first, second]).landed == {first.job, second.job}
    assert rows(target) == span(0, 0, 5) + span(1, 0, 5)


def test_a_rival_with_other_files_for_the_same_range_adds_no_row(world: TablesWorld) -> None:
    target = world.target()
    append_files(target, [world.append(0, 0, 5)])
    append_files(target, [world.append(0, 0, 5, job="rival")])
    assert rows(target) == span(0, 0, 5)


def test_overlaps_and_gaps_are_refused_and_the_rest_lands(world: TablesWorld) -> None:
    target = world.target()
    append_files(target, [world.append(0, 0, 5)])
    appends = [world.append(0, 3, 8), world.append(1, 2, 4), world.append(2, 0, 2)]
    outcome = append_files(target, appends)
    assert outcome.landed == {"j2-0-2"}
    assert set(outcome.refused) == {"j0-3-8", "j1-2-4"}
    assert "the table has everything before 5" in str(outcome.refused["j0-3-8"])
    assert "the table is complete only before 0" in str(outcome.refused["j1-2-4"])
    assert rows(target) == span(0, 0, 5) + span(2, 0, 2)


def test_a_hole_that_the_caller_names_is_jumped(world: TablesWorld) -> None:
    target = world.target()
    append_files(target, [world.append(0, 10, 15, holes=[(0, 10)])])
    append_files(target, [world.append(0, 20, 25, holes=[(0, 10), (15, 18), (18, 20)])])
    assert rows(target) == span(0, 10, 15) + span(0, 20, 25)


def test_a_range_without_records_moves_the_watermark(world: TablesWorld) -> None:
    target = world.target()
    append_files(target, [world.append(0, 0, 5, records=[])])
    append_files(target, [Append(job="none", stream=100, start=5, end=9, files=[])])
    append_files(target, [world.append(0, 9, 11)])
    assert rows(target) == span(0, 9, 11)


def test_consecutive_jobs_of_a_stream_land_together(world: TablesWorld) -> None:
    target = world.target()
    outcome = append_files(target, [world.append(0, 5, 9), world.append(0, 0, 5)])
    assert len(outcome.landed) == 2
    assert rows(target) == span(0, 0, 9)


def test_a_rewrite_replaces_files_once(world: TablesWorld) -> None:
    target = world.target()
    inputs = [world.append(0, 0, 5), world.append(0, 5, 9)]
    append_files(target, [*inputs, world.append(1, 0, 4)])
    keys = [one.files[0].key for one in inputs]
    rewrite = Rewrite(job="big", inputs=keys, files=[world.write(0, 0, 9, attempt="big")])
    assert rewrite_files(target, [rewrite]).snapshot_id is not None
    repeated = rewrite_files(world.target(create=False), [rewrite])
    assert repeated.landed == {"big"}
    assert repeated.snapshot_id is None
    assert rows(target) == span(0, 0, 9) + span(1, 0, 4)
    table = target.catalog.load_table(NAME)
    assert len(list(table.scan().plan_files())) == 2
    assert watermarks(table.properties) == {100: 9, 101: 4}


def test_a_rewrite_whose_input_is_gone_is_refused(world: TablesWorld) -> None:
    target = world.target()
    inputs = [world.append(0, 0, 5), world.append(0, 5, 9)]
    append_files(target, inputs)
    keys = [one.files[0].key for one in inputs]
    assert remove_files(target, [keys[0], "tables/id-1/data/0/unknown.parquet"]) == {keys[0]}
    rewrite = Rewrite(job="big", inputs=keys, files=[world.write(0, 0, 9, attempt="big")])
    outcome = rewrite_files(target, [rewrite])
    assert "the table has 1 of 2 files to replace" in str(outcome.refused["big"])
    assert rows(target) == span(0, 5, 9)


def test_a_removed_file_does_not_come_back(world: TablesWorld) -> None:
    target = world.target()
    append = world.append(0, 0, 5)
    append_files(target, [append, world.append(0, 5, 7)])
    assert remove_files(target, [append.files[0].key]) == {append.files[0].key}
    assert remove_files(target, [append.files[0].key]) == frozenset()
    assert append_files(target, [append]).snapshot_id is None
    assert rows(target) == span(0, 5, 7)
    summary = target.catalog.load_table(NAME).metadata.current_snapshot()
    assert summary is not None
    assert summary.summary is not None
    assert summary.summary.operation.value == "delete"


def test_a_table_that_someone_else_wrote_to_is_refused(world: TablesWorld) -> None:
    target = world.target()
    append_files(target, [world.append(0, 0, 5)])
    table = target.catalog.load_table(NAME)
    table.append(table.scan().to_arrow())
    with pytest.raises(TableMismatch, match="was changed by another writer"):
        append_files(target, [world.append(0, 5, 9)])


def test_a_table_that_someone_set_back_is_refused_until_it_is_set_forth(world: TablesWorld) -> None:
    target = world.target()
    first = append_files(target, [world.append(0, 0, 5)]).snapshot_id
    second = append_files(target, [world.append(0, 5, 9)]).snapshot_id
    assert first is not None
    assert second is not None
    table = target.catalog.load_table(NAME)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    append = world.append(0, 9, 12)
    with pytest.raises(TableMismatch, match=f"Headwater's last one is {second}"):
        append_files(target, [append])
    table.refresh().manage_snapshots().set_current_snapshot(second).commit()
    append_files(target, [append])
    assert rows(target) == span(0, 0, 12)


def test_files_keep_their_protection_when_someone_takes_it_away(world: TablesWorld) -> None:
    target = world.target()
    table = target.catalog.load_table(NAME)
    with table.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "true"})
    append_files(target, [world.append(0, 0, 5)])
    assert table.refresh().properties["gc.enabled"] == "false"
