"""Users' own tables and namespaces, through the REST catalog."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

from headwater.tables.settings import TableSettings
from tests.support.tables.rest_world import SCHEMA, Endpoint, serving
from tests.support.tables.world import TablesWorld

ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    with serving(TablesWorld.under(tmp_path)) as endpoint:
        yield endpoint


def test_a_table_lives_its_whole_life(endpoint: Endpoint) -> None:
    catalog = endpoint.client()
    catalog.create_namespace("lake")
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    table = catalog.create_table("lake.t", SCHEMA, partition_spec=spec, properties={"a": "1"})
    assert table.location() == f"{endpoint.warehouse}/lake/t"
    table.append(ROWS)
    with table.update_schema() as update:
        update.add_column("extra", LongType())
    with table.transaction() as transaction:
        transaction.set_properties({"a": "2"})
    table.overwrite(ROWS.append_column("extra", [pa.array([7, 8])]))
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("lake.t", SCHEMA)
    catalog.rename_table("lake.t", "lake.other")
    with pytest.raises(NoSuchTableError):
        catalog.load_table("lake.t")
    again = catalog.load_table("lake.other")
    assert again.properties["a"] == "2"
    assert sorted(again.scan().to_arrow()["extra"].to_pylist()) == [7, 8]
    catalog.drop_table("lake.other")
    assert catalog.list_tables("lake") == []
    with pytest.raises(NoSuchTableError):
        catalog.drop_table("lake.other")
    assert again.scan().to_arrow().num_rows == 2, "a drop deletes no file"


def test_a_transaction_creates_a_table_with_its_rows(endpoint: Endpoint) -> None:
    catalog = endpoint.client()
    catalog.create_namespace("lake")
    with catalog.create_table_transaction("lake.t", SCHEMA) as transaction:
        transaction.append(ROWS)
        assert not catalog.table_exists("lake.t")
    assert catalog.load_table("lake.t").scan().to_arrow().num_rows == 2


def test_two_transactions_create_one_table(endpoint: Endpoint) -> None:
    catalog = endpoint.client()
    catalog.create_namespace("lake")
    first = catalog.create_table_transaction("lake.t", SCHEMA)
    second = catalog.create_table_transaction("lake.t", SCHEMA)
    first.commit_transaction()
    with pytest.raises(CommitFailedException):
        second.commit_transaction()


def test_a_commit_on_an_older_state_is_refused_and_changes_nothing(endpoint: Endpoint) -> None:
    catalog = endpoint.client()
    catalog.create_namespace("lake")
    catalog.create_table("lake.t", SCHEMA)
    late = catalog.load_table("lake.t").transaction()
    with late.update_schema() as update:
        update.add_column("late", LongType())
    with catalog.load_table("lake.t").update_schema() as update:
        update.add_column("early", LongType())
    with pytest.raises(CommitFailedException):
        late.commit_transaction()
    assert catalog.load_table("lake.t").schema().column_names == ["id", "name", "early"]


def test_of_racing_commits_on_one_state_one_lands(endpoint: Endpoint) -> None:
    catalog = endpoint.client()
    catalog.create_namespace("lake")
    table = catalog.create_table("lake.t", SCHEMA)
    body = {
        "requirements": [{"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2}],
        "updates": [{"action": "add-schema", "schema": _wider(), "last-column-id": 3}],
    }
    answers: list[int] = []

    def commit() -> None:
        answers.append(endpoint.ask("POST", "/v1/namespaces/lake/tables/t", body).status)

    threads = [threading.Thread(target=commit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200] + [409] * 7
    assert len(table.refresh().schemas()) == 2


def _wider() -> dict[str, object]:
    added = {"id": 3, "name": "more", "required": False, "type": "long"}
    return {
        "type": "struct",
        "schema-id": 1,
        "fields": [*SCHEMA.model_dump(mode="json")["fields"], added],
    }


def test_namespaces_are_made_changed_and_dropped(endpoint: Endpoint) -> None:
    catalog = endpoint.client()
    catalog.create_namespace("lake", {"owner": "me"})
    catalog.create_namespace(("lake", "raw"))
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("lake")
    assert catalog.list_namespaces() == [("lake",)]
    assert catalog.list_namespaces("lake") == [("lake", "raw")]
    assert catalog.namespace_exists("lake")
    assert not catalog.namespace_exists("sea")
    summary = catalog.update_namespace_properties("lake", {"owner", "gone"}, {"team": "us"})
    assert (summary.removed, summary.updated, summary.missing) == (["owner"], ["team"], ["gone"])
    assert catalog.load_namespace_properties("lake")["team"] == "us"
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("lake")
    catalog.drop_namespace(("lake", "raw"))
    catalog.update_namespace_properties("lake", {"team", "exists"}, {})
    assert catalog.namespace_exists("lake"), "one without properties stays"
    catalog.drop_namespace("lake")
    with pytest.raises(NoSuchNamespaceError):
        catalog.drop_namespace("lake")
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables("lake")


def test_lists_come_in_pages(endpoint: Endpoint) -> None:
    catalog = endpoint.client(**{"rest-page-size": "2"})
    for name in ("c", "a", "e", "b", "d"):
        catalog.create_namespace(name)
        catalog.create_table(f"a.{name}", SCHEMA) if name != "c" else None
    assert catalog.list_namespaces() == [("a",), ("b",), ("c",), ("d",), ("e",)]
    assert catalog.list_tables("a") == [("a", "a"), ("a", "b"), ("a", "d"), ("a", "e")]
    first = endpoint.ask("GET", "/v1/namespaces?pageToken=&pageSize=2").json
    assert first["namespaces"] == [["a"], ["b"]]
    catalog.create_namespace("aa")
    rest = endpoint.ask("GET", f"/v1/namespaces?pageToken={first['next-page-token']}").json
    assert rest == {"namespaces": [["c"], ["d"], ["e"]], "next-page-token": None}


def test_there_are_no_views(endpoint: Endpoint) -> None:
    catalog = endpoint.client()
    catalog.create_namespace("lake")
    assert catalog.list_views("lake") == []
    assert not catalog.view_exists("lake.v")
    with pytest.raises(NoSuchViewError):
        catalog.load_view("lake.v")
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_views("sea")


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/cron.d/x",
        "{objects}/tables/id-1",
        "{objects}/warehouse",
        "{objects}/warehouse/../tables/id-1",
        "{objects}/warehouse//x",
        "{objects}/warehousex/t",
        "s3://elsewhere/t",
    ],
)
def test_a_table_lies_in_the_warehouse(endpoint: Endpoint, location: str) -> None:
    catalog = endpoint.client()
    catalog.create_namespace("lake")
    place = location.format(objects=endpoint.world.objects_url)
    with pytest.raises(ForbiddenError, match="warehouse"):
        catalog.create_table("lake.t", SCHEMA, location=place)
    with pytest.raises(ForbiddenError, match="warehouse"):
        catalog.create_table_transaction("lake.t", SCHEMA, location=place)
    with pytest.raises(ForbiddenError, match="warehouse"):
        catalog.create_table("lake.t", SCHEMA, properties={"write.metadata.path": place})
    with pytest.raises(ForbiddenError, match="warehouse"):
        catalog.create_namespace("other", {"location": place})
    table = catalog.create_table("lake.t", SCHEMA)
    body = {"requirements": [], "updates": [{"action": "set-location", "location": place}]}
    assert endpoint.ask("POST", "/v1/namespaces/lake/tables/t", body).kind == "ForbiddenException"
    assert catalog.load_table("lake.t").location() == table.location()


@pytest.mark.parametrize(
    "name", ["py-io-impl", "write.py-location-provider.impl", "s3.endpoint", "headwater.topic-id"]
)
def test_a_property_reaches_no_further_than_its_table(endpoint: Endpoint, name: str) -> None:
    catalog = endpoint.client()
    catalog.create_namespace("lake")
    with pytest.raises(ForbiddenError, match=name):
        catalog.create_table("lake.t", SCHEMA, properties={name: "os.system"})
    table = catalog.create_table("lake.t", SCHEMA)
    with pytest.raises(ForbiddenError, match=name), table.transaction() as transaction:
        transaction.set_properties({name: "os.system"})


def test_a_dropped_table_is_registered_again(endpoint: Endpoint) -> None:
    catalog = endpoint.client()
    catalog.create_namespace("lake")
    table = catalog.create_table("lake.t", SCHEMA)
    table.append(ROWS)
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table("lake.t", table.metadata_location)
    catalog.drop_table("lake.t")
    again = catalog.register_table("lake.t", table.metadata_location)
    assert again.scan().to_arrow().num_rows == 2
    with pytest.raises(BadRequestError):
        catalog.register_table("lake.u", table.inspect.files()["file_path"][0].as_py())


def test_a_format_that_is_not_written_here_is_refused(endpoint: Endpoint) -> None:
    endpoint.client().create_namespace("lake")
    body = {
        "name": "t",
        "schema": SCHEMA.model_dump(mode="json"),
        "properties": {"format-version": "3"},
    }
    answer = endpoint.ask("POST", "/v1/namespaces/lake/tables", body)
    assert (answer.status, answer.kind) == (406, "UnsupportedOperationException")
    assert not list(endpoint.world.directory.glob("objects/warehouse/**/*.json"))
    table = endpoint.client().create_table("lake.t", SCHEMA)
    commit = {"updates": [{"action": "upgrade-format-version", "format-version": 3}]}
    assert endpoint.ask("POST", "/v1/namespaces/lake/tables/t", commit).status == 406
    assert table.refresh().format_version == 2


def test_a_catalog_over_another_rest_catalog_serves_its_tables(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    settings = TableSettings(catalog="rest", catalog_uri=endpoint.url)
    with serving(TablesWorld.under(tmp_path, settings=settings)) as front:
        catalog = front.client()
        catalog.create_namespace("lake")
        with pytest.raises(NamespaceAlreadyExistsError):
            catalog.create_namespace("lake")
        table = catalog.create_table("lake.t", SCHEMA)
        late = catalog.load_table("lake.t").transaction()
        with late.update_schema() as update:
            update.add_column("late", LongType())
        table.append(ROWS)
        with table.update_schema() as update:
            update.add_column("early", LongType())
        with pytest.raises(CommitFailedException):
            late.commit_transaction()
        with catalog.create_table_transaction("lake.u", SCHEMA) as transaction:
            transaction.append(ROWS)
        assert endpoint.client().load_table("lake.u").scan().to_arrow().num_rows == 2
        assert catalog.list_tables("lake") == [("lake", "t"), ("lake", "u")]
        catalog.rename_table("lake.t", "lake.s")
        catalog.purge_table("lake.s")
        with pytest.raises(NoSuchTableError):
            catalog.load_table("lake.s")
        with pytest.raises(NoSuchNamespaceError):
            catalog.list_tables("sea")
