from typing import Any

import msgspec
import pytest

from headwater.tables.commit.changes import Rewrite, append_files, remove_files, rewrite_files
from headwater.tables.commit.iceberg_internals import FULL_MANIFEST, SMALL_MANIFESTS
from headwater.tables.commit.live_files import unreferenced
from headwater.tables.commit.watermarks import Append, watermarks
from headwater.tables.maintenance import (
    delete_orphaned_metadata,
    expire_snapshots,
    plan_expiry,
)
from headwater.tables.settings import TableSettings
from headwater.tables.topic_tables import load_table
from tests.support.tables.world import NAME, TablesWorld, rows, span

SETTINGS = TableSettings(keep_snapshots=2, snapshot_age_ms=100, max_snapshots=4)


def test_snapshots_go_by_age_and_number_and_the_newest_stay() -> None:
    line = [(number, 1000 - number) for number in range(6)]
    assert plan_expiry(line, set(), SETTINGS, now_ms=1001) == [4, 5]
    assert plan_expiry(line, set(), SETTINGS, now_ms=1098) == [3, 4, 5]
    assert plan_expiry(line, {3}, SETTINGS, now_ms=2**40) == [2, 4, 5]
    assert plan_expiry(line[:2], set(), SETTINGS, now_ms=2**40) == []


def test_expired_snapshots_take_their_metadata_with_them(world: TablesWorld) -> None:
    target = world.target()
    for start in range(0, 60, 2):
        append_files(target, [world.append(0, start, start + 2)])
    expired = expire_snapshots(target, SETTINGS, now_ms=2**42)
    assert len(expired.expired) == 28
    table = target.catalog.load_table(NAME)
    assert len(table.snapshots()) == 2
    for location in expired.deleted:
        assert not table.io.new_input(location).exists()
    assert rows(target) == span(0, 0, 60)
    older = table.snapshots()[0]
    assert table.scan(snapshot_id=older.snapshot_id).to_arrow().num_rows == 58
    assert watermarks(table.properties) == {100: 60}
    assert delete_orphaned_metadata(target, older_than_ms=0, now_ms=2**42) == []
    assert expire_snapshots(target, SETTINGS, now_ms=2**42).expired == ()


def test_a_landed_append_is_known_after_its_snapshot_is_gone(world: TablesWorld) -> None:
    target = world.target()
    appends = [world.append(0, start, start + 2) for start in range(0, 12, 2)]
    for append in appends:
        append_files(target, [append])
    expire_snapshots(target, SETTINGS, now_ms=2**42)
    assert append_files(target, [appends[0]]).snapshot_id is None
    assert rows(target) == span(0, 0, 12)


def test_a_tag_keeps_its_snapshot_readable(world: TablesWorld) -> None:
    target = world.target()
    first = append_files(target, [world.append(0, 0, 2)]).snapshot_id
    assert first is not None
    target.catalog.load_table(NAME).manage_snapshots().create_tag(first, "mine").commit()
    for start in range(2, 50, 2):
        append_files(target, [world.append(0, start, start + 2)])
    expire_snapshots(target, SETTINGS, now_ms=2**42)
    table = target.catalog.load_table(NAME)
    assert table.scan(snapshot_id=first).to_arrow().num_rows == 2
    assert rows(target) == span(0, 0, 50)


def test_a_file_is_free_once_no_kept_snapshot_has_it(world: TablesWorld) -> None:
    target = world.target()
    appends = [world.append(0, 0, 5), world.append(0, 5, 9), world.append(1, 0, 3)]
    append_files(target, appends)
    keys = [one.files[0].key for one in appends]
    big = world.write(0, 0, 9, attempt="big")
    rewrite_files(target, [Rewrite(job="big", inputs=keys[:2], files=[big])])
    remove_files(target, [keys[2]])

    def free() -> frozenset[str]:
        table = target.catalog.load_table(NAME)
        return unreferenced(table, [*keys, big.key, "x"], objects_url=world.objects_url)

    assert free() == {"x"}
    expire_snapshots(target, TableSettings(keep_snapshots=2, max_snapshots=2), now_ms=0)
    assert free() == {"x", *keys[:2]}
    expire_snapshots(target, TableSettings(keep_snapshots=1, max_snapshots=1), now_ms=0)
    assert free() == {"x", *keys}


def test_manifests_stay_few_and_full_ones_are_left_alone(world: TablesWorld) -> None:
    target = world.target()
    file = world.write(0, 0, 1)
    seen: set[str] = set()
    for number in range(3 * SMALL_MANIFESTS):
        files = [
            msgspec.structs.replace(file, key=f"tables/id-1/data/0/{number}-{place}.parquet")
            for place in range(FULL_MANIFEST // SMALL_MANIFESTS)
        ]
        append_files(
            target,
            [Append(job=f"{number}", stream=100, start=number, end=number + 1, files=files)],
        )
        snapshot = target.catalog.load_table(NAME).current_snapshot()
        assert snapshot is not None
        manifests = snapshot.manifests(target.catalog.load_table(NAME).io)
        assert len(manifests) <= SMALL_MANIFESTS + 3
        full = {
            one.manifest_path
            for one in manifests
            if (one.added_files_count or 0) + (one.existing_files_count or 0) >= FULL_MANIFEST
        }
        assert seen <= full
        seen |= full
    assert len(seen) >= 2
    live = sum((one.added_files_count or 0) + (one.existing_files_count or 0) for one in manifests)
    assert live == 3 * FULL_MANIFEST


def test_metadata_that_a_catalog_spells_otherwise_is_not_taken_for_orphaned(
    world: TablesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = world.target()
    append_files(target, [world.append(0, 0, 5)])

    def load(*args: Any) -> Any:
        table = load_table(*args)
        table.metadata_location = table.metadata_location.replace("file:///", "file:/")
        return table

    monkeypatch.setattr("headwater.tables.maintenance.load_table", load)
    assert delete_orphaned_metadata(target, older_than_ms=-1, now_ms=2**42) == []
    assert rows(target) == span(0, 0, 5)
