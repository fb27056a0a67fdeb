from dataclasses import replace

import pytest
from pyiceberg.types import StringType

from headwater.errors import CatalogUnavailable, ConfigurationError, TableMismatch
from headwater.tables.catalog.catalogs import catalog_properties
from headwater.tables.commit.changes import append_files
from headwater.tables.names import check_template, table_name
from headwater.tables.schema import ICEBERG
from headwater.tables.settings import TableSettings
from headwater.tables.topic_tables import TableOwner, ensure_table, load_table
from tests.support.tables.world import NAME, OWNER, TablesWorld, rows, span


def ensure(world: TablesWorld, owner: TableOwner = OWNER) -> None:
    ensure_table(replace(world.target(create=False), owner=owner), "partition")


def test_a_table_says_whose_it_is_and_guards_its_files(world: TablesWorld) -> None:
    table = world.target().catalog.load_table(NAME)
    found = table.properties
    assert found["headwater.cluster-id"] == "c1"
    assert found["headwater.topic"] == "orders"
    assert found["headwater.topic-id"] == "id-1"
    assert found["gc.enabled"] == "false"
    assert "schema.name-mapping.default" in found
    assert table.format_version == 2
    assert table.location() == f"{world.objects_url}/tables/id-1"
    assert [field.name for field in table.spec().fields] == ["partition"]
    assert table.sort_order().fields[0].source_id == 2


def test_an_existing_table_is_found_again(world: TablesWorld) -> None:
    target = world.target()
    append_files(target, [world.append(0, 0, 5)])
    assert rows(world.target()) == span(0, 0, 5)


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (replace(OWNER, cluster_id="c2"), "belongs to cluster c1"),
        (replace(OWNER, topic="orders.eu", topic_id="id-9"), "belongs to topic orders"),
        (replace(OWNER, topic_id="id-0", first_stream=50), "is deleted"),
    ],
)
def test_a_table_of_someone_else_is_refused(
    world: TablesWorld, owner: TableOwner, reason: str
) -> None:
    target = world.target()
    with pytest.raises(TableMismatch, match=reason):
        ensure(world, owner)
    with pytest.raises(TableMismatch):
        append_files(replace(target, owner=owner), [world.append(0, 0, 5)])


def test_a_table_that_headwater_did_not_make_is_refused(world: TablesWorld) -> None:
    catalog = world.catalog()
    catalog.create_namespace(NAME[0])
    catalog.create_table(NAME, ICEBERG)
    with pytest.raises(TableMismatch, match="was not made by Headwater"):
        ensure(world)


def test_a_topic_created_again_gets_a_new_table_and_place(world: TablesWorld) -> None:
    append_files(world.target(), [world.append(0, 0, 5)])
    later = world.again("id-2", 200)
    target = later.target()
    assert rows(target) == []
    append_files(target, [later.append(0, 0, 2)])
    assert rows(target) == span(0, 0, 2)
    old = target.catalog.load_table(("headwater", "orders_deleted_id-1"))
    assert old.location() == f"{world.objects_url}/tables/id-1"
    with pytest.raises(TableMismatch, match="is deleted"):
        append_files(world.target(create=False), [world.append(0, 5, 7)])
    assert rows(later.target()) == span(0, 0, 2)


def test_a_table_that_someone_dropped_is_an_error_and_comes_back_by_registering(
    world: TablesWorld,
) -> None:
    target = world.target()
    append_files(target, [world.append(0, 0, 5)])
    metadata = target.catalog.load_table(NAME).metadata_location
    target.catalog.drop_table(NAME)
    append = world.append(0, 5, 9)
    with pytest.raises(TableMismatch, match="register its newest metadata file"):
        append_files(target, [append])
    with pytest.raises(TableMismatch, match="was dropped or renamed") as caught:
        ensure(world)
    assert metadata in str(caught.value)
    target.catalog.register_table(NAME, metadata)
    append_files(target, [append])
    assert rows(target) == span(0, 0, 9)


def test_a_table_that_holds_nothing_yet_may_be_dropped(world: TablesWorld) -> None:
    target = world.target()
    target.catalog.drop_table(NAME)
    ensure(world)
    assert rows(target) == []


def test_added_columns_are_fine_and_missing_ones_are_not(world: TablesWorld) -> None:
    target = world.target()
    append_files(target, [world.append(0, 0, 5)])
    table = target.catalog.load_table(NAME)
    with table.update_schema() as update:
        update.add_column("note", StringType())
    append_files(target, [world.append(0, 5, 9)])
    assert rows(target) == span(0, 0, 9)
    with table.refresh().update_schema() as update:
        update.delete_column("value")
    with pytest.raises(TableMismatch, match="column value is gone"):
        append_files(target, [world.append(0, 9, 12)])


def test_a_changed_partitioning_is_refused(world: TablesWorld) -> None:
    target = world.target()
    with target.catalog.load_table(NAME).update_spec() as update:
        update.remove_field("partition")
    with pytest.raises(TableMismatch, match="it is partitioned by"):
        load_table(target)


def test_a_catalog_that_is_down_is_a_typed_error(world: TablesWorld) -> None:
    settings = TableSettings(catalog="rest", catalog_uri="http://127.0.0.1:9")
    with pytest.raises(CatalogUnavailable, match="opening the rest catalog"):
        replace(world, settings=settings).catalog()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (TableSettings(catalog="rest"), "tables.catalog_uri is not set"),
        (TableSettings(catalog_options="token"), "expected NAME=VALUE"),
        (TableSettings(name="headwater.orders"), "has no <topic>"),
        (TableSettings(name="<topic>"), "namespace.table"),
        (TableSettings(catalog="paper"), "catalog of type 'paper'"),
    ],
)
def test_wrong_settings_are_refused(
    world: TablesWorld, settings: TableSettings, reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        replace(world, settings=settings).catalog()


def test_tables_need_a_store_that_others_can_reach(world: TablesWorld) -> None:
    with pytest.raises(ConfigurationError, match="not memory://"):
        replace(world, objects_url="memory://").catalog()


def test_a_bucket_is_reached_as_the_broker_reaches_it(
    world: TablesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    found = catalog_properties(
        TableSettings(catalog="rest", catalog_uri="http://c", catalog_options="token=t, prefix=p"),
        data=world.directory,
        metadata_url=world.metadata_url,
        objects_url="s3://lake/prod?endpoint=http://127.0.0.1:9000&region=eu-central-1",
    )
    assert found == {
        "type": "rest",
        "uri": "http://c",
        "warehouse": "s3://lake/prod/tables",
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.region": "eu-central-1",
        "s3.access-key-id": "id",
        "s3.secret-access-key": "secret",
        "s3.force-virtual-addressing": "false",
        "token": "t",
        "prefix": "p",
    }


def test_a_topic_may_name_its_table() -> None:
    check_template("lake.raw.<topic>")
    assert table_name("lake.raw.<topic>", "a.b-c", {}) == ("lake", "raw", "a_b-c")
    assert table_name("x.<topic>", "a", {"headwater.table.name": "y.z"}) == ("y", "z")
