"""The catalog in the metadata store: one for every process of a cluster."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)

from headwater.cluster_record import ClusterRecord
from headwater.errors import CatalogUnavailable, ConfigurationError
from headwater.meta import keys
from headwater.tables.commit.changes import append_files
from headwater.tables.settings import TableSettings
from tests.support.tables.catalog_keys import write_keys
from tests.support.tables.rest_world import SCHEMA
from tests.support.tables.world import NAME, TablesWorld, rows, span


@pytest.fixture
def catalog(world: TablesWorld) -> Catalog:
    return world.catalog()


def test_every_data_directory_sees_the_same_tables(world: TablesWorld, tmp_path: Path) -> None:
    append_files(world.target(), [world.append(0, 0, 5)])
    target = replace(world, directory=tmp_path / "other", cluster=world.directory).target()
    assert rows(target) == span(0, 0, 5)
    append_files(target, [world.append(0, 5, 9)])
    assert rows(world.target(create=False)) == span(0, 0, 9)
    assert not list(tmp_path.glob("**/catalog.db"))


def test_of_two_commits_on_one_state_one_lands(world: TablesWorld) -> None:
    target = world.target()
    table = target.catalog.load_table(NAME)
    change = table.transaction().set_properties({"b": "1"})
    original = target.catalog.write_metadata  # type: ignore[attr-defined]

    def overtaken(*args: object) -> None:
        original(*args)
        with world.catalog().load_table(NAME).transaction() as rival:
            rival.set_properties({"a": "1"})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target.catalog, "write_metadata", overtaken)
        with pytest.raises(CommitFailedException, match="another commit"):
            target.catalog.commit_table(table, change._requirements, change._updates)
    found = world.catalog().load_table(NAME).properties
    assert "a" in found
    assert "b" not in found


def test_a_namespace_with_tables_or_namespaces_is_not_dropped(catalog: Catalog) -> None:
    catalog.create_namespace(("lake", "raw.eu"), {"owner": "me"})
    assert catalog.list_namespaces() == [("lake",)]
    assert catalog.list_namespaces("lake") == [("lake", "raw.eu")]
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("lake")
    catalog.create_table(("lake", "raw.eu", "a.b"), SCHEMA)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("lake")
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(("lake", "raw.eu"))
    catalog.create_namespace("other")
    catalog.rename_table(("lake", "raw.eu", "a.b"), "other.t")
    catalog.drop_namespace(("lake", "raw.eu"))
    catalog.drop_namespace("lake")
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("other")
    catalog.drop_table("other.t")
    catalog.drop_namespace("other")
    assert catalog.list_namespaces() == []


def test_names_that_are_taken_or_missing_are_said_so(catalog: Catalog) -> None:
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table("lake.t", SCHEMA)
    catalog.create_namespace("lake")
    made = catalog.create_table("lake.t", SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("lake.t", SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table("lake.t", made.metadata_location)
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table("lake.t", "lake.t")
    with pytest.raises(NoSuchNamespaceError):
        catalog.rename_table("lake.t", "sea.t")
    for missing in (catalog.drop_table, catalog.load_table):
        with pytest.raises(NoSuchTableError):
            missing("lake.u")
    assert catalog.list_tables("lake") == [("lake", "t")]
    catalog.drop_table("lake.t")
    assert not catalog.table_exists("lake.t")


def test_a_name_and_properties_that_no_store_takes_are_refused(catalog: Catalog) -> None:
    with pytest.raises(ValueError, match="1024 characters"):
        catalog.create_namespace("n" * 1025)
    with pytest.raises(ValueError, match="65536 bytes"):
        catalog.create_namespace("n", {"p": "x" * 65536})
    with pytest.raises(ValueError, match="empty"):
        catalog.create_namespace(("n", ""))


def test_properties_of_a_namespace_change(catalog: Catalog) -> None:
    catalog.create_namespace("lake", {"a": "1", "b": "2"})
    summary = catalog.update_namespace_properties("lake", {"a", "x"}, {"b": "3"})
    assert (summary.removed, summary.updated, summary.missing) == (["a"], ["b"], ["x"])
    assert catalog.load_namespace_properties("lake") == {"b": "3"}


def test_nothing_is_read_or_changed_during_a_restore(world: TablesWorld, catalog: Catalog) -> None:
    catalog.create_namespace("lake")
    restoring = ClusterRecord(id="c1", epoch=1, restoring="a snapshot")
    write_keys(world, {keys.CLUSTER: restoring})
    with pytest.raises(CatalogUnavailable, match="being restored"):
        catalog.list_namespaces()
    with pytest.raises(CatalogUnavailable, match="being restored"):
        catalog.create_namespace("sea")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (TableSettings(catalog="sql"), "is a file of this host"),
        (TableSettings(catalog_uri="sqlite:////srv/catalog.db"), "is a file of this host"),
        (TableSettings(catalog_uri="sqlite+pysqlite:////srv/c.db"), "is a file of this host"),
        (
            TableSettings(
                catalog_uri="postgresql://c/d", catalog_options="uri=sqlite:////srv/c.db"
            ),
            "is a file of this host",
        ),
        (TableSettings(catalog="in-memory"), "is in the memory of this process"),
        (TableSettings(catalog="metadata", catalog_uri="http://c"), "has no address of its own"),
    ],
)
def test_a_local_catalog_of_a_remote_cluster_is_refused(
    world: TablesWorld, settings: TableSettings, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        Remote(world.directory, world.objects_url, settings=settings).catalog()


class Remote(TablesWorld):
    """A cluster with its metadata on a server, which must not be asked."""

    @property
    def metadata_url(self) -> str:
        return "postgres://me:secret@127.0.0.1:9/db"


def test_metadata_in_a_brokers_memory_has_no_tables(world: TablesWorld) -> None:
    class InMemory(TablesWorld):
        @property
        def metadata_url(self) -> str:
            return "memory://"

    with pytest.raises(ConfigurationError, match="other processes can reach"):
        InMemory(world.directory, world.objects_url).catalog()


def test_a_metadata_store_that_does_not_answer_is_a_typed_error(world: TablesWorld) -> None:
    with pytest.raises(CatalogUnavailable, match="metadata store"):
        Remote(world.directory, world.objects_url).catalog()
