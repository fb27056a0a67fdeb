"""The catalog file of earlier releases is taken over."""

from dataclasses import replace

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from headwater.errors import TableMismatch
from headwater.tables.catalog.catalog_file import FILE_NAME, take_over
from headwater.tables.catalog.metadata_catalog import MetadataCatalog
from headwater.tables.commit.changes import append_files
from headwater.tables.settings import TableSettings
from tests.support.tables.rest_world import SCHEMA
from tests.support.tables.world import NAME, TablesWorld, rows, span


@pytest.fixture
def earlier(world: TablesWorld) -> TablesWorld:
    """The same directory as an earlier release used it."""
    return replace(world, settings=TableSettings(catalog="sql"))


def own(world: TablesWorld) -> MetadataCatalog:
    catalog = world.catalog()
    assert isinstance(catalog, MetadataCatalog)
    return catalog


def test_tables_and_namespaces_are_there_after_an_upgrade(
    world: TablesWorld, earlier: TablesWorld
) -> None:
    append_files(earlier.target(), [world.append(0, 0, 5)])
    before: Catalog = earlier.catalog()
    before.create_namespace(("lake", "raw"), {"owner": "me"})
    before.create_namespace("empty")
    before.create_table("lake.raw.t", SCHEMA)
    assert rows(world.target(create=False)) == span(0, 0, 5)
    catalog = world.catalog()
    assert catalog.load_table("lake.raw.t").schema() == SCHEMA
    assert catalog.load_namespace_properties("lake.raw") == {"owner": "me"}
    assert sorted(catalog.list_namespaces()) == [("empty",), ("headwater",), ("lake",)]


def test_a_process_of_the_earlier_release_commits_nothing_afterwards(
    world: TablesWorld, earlier: TablesWorld
) -> None:
    target = earlier.target()
    append_files(target, [world.append(0, 0, 5)])
    append_files(world.target(create=False), [world.append(0, 5, 9)])
    with pytest.raises(TableMismatch, match="was dropped or renamed"):
        append_files(target, [world.append(0, 9, 12)])
    assert rows(world.target(create=False)) == span(0, 0, 9)


def test_what_the_earlier_release_added_since_is_taken_over_later(
    world: TablesWorld, earlier: TablesWorld
) -> None:
    world.catalog()
    catalog = earlier.catalog()
    catalog.create_namespace("lake")
    catalog.create_table("lake.t", SCHEMA)
    assert world.catalog().table_exists("lake.t")


def test_a_broken_off_take_over_is_finished(
    world: TablesWorld, earlier: TablesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_files(earlier.target(), [world.append(0, 0, 5)])
    with monkeypatch.context() as patch:

        def breaks(self: MetadataCatalog, name: tuple[str, ...], location: str) -> None:
            original(self, name, location)
            raise KeyboardInterrupt

        original = MetadataCatalog.add_pointer
        patch.setattr(MetadataCatalog, "add_pointer", breaks)
        with pytest.raises(KeyboardInterrupt):
            world.catalog()
    append_files(earlier.target(create=False), [world.append(0, 5, 9)])
    assert rows(world.target(create=False)) == span(0, 0, 9)


def test_a_table_of_another_cluster_stays_in_the_file(
    world: TablesWorld, earlier: TablesWorld
) -> None:
    append_files(earlier.target(), [world.append(0, 0, 5)])
    catalog = own(replace(world, directory=world.directory / "other"))
    take_over(world.directory / FILE_NAME, catalog, below="s3://lake/")
    assert catalog.list_namespaces() == []
    assert earlier.catalog().table_exists(NAME)


def test_a_name_that_the_cluster_has_given_to_another_table_stays_in_the_file(
    world: TablesWorld, earlier: TablesWorld, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = world.catalog()
    catalog.create_namespace("lake")
    catalog.create_table("lake.t", SCHEMA, location=f"{world.objects_url}/warehouse/a")
    before = earlier.catalog()
    before.create_namespace("lake")
    before.create_table("lake.t", SCHEMA, location=f"{world.objects_url}/warehouse/b")
    assert world.catalog().load_table("lake.t").location().endswith("/a")
    assert "another name  table=lake.t  file=catalog.db" in caplog.text
    assert earlier.catalog().load_table("lake.t").location().endswith("/b")


def test_a_file_that_is_no_catalog_is_left_alone(world: TablesWorld) -> None:
    (world.directory / FILE_NAME).touch()
    with pytest.raises(NoSuchTableError):
        world.catalog().load_table(NAME)
