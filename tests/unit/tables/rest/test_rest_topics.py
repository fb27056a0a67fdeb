"""Tables that are topics' logs, through the REST catalog: read by anyone, changed by nobody."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.types import LongType

from headwater.tables.commit.changes import append_files
from tests.support.tables.rest_world import SCHEMA, Endpoint, serving
from tests.support.tables.world import TablesWorld, rows, span

ORDERS = "headwater.orders"


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    world = TablesWorld.under(tmp_path)
    target = world.target()
    append_files(target, [world.append(0, 0, 20), world.append(1, 0, 5)])
    append_files(target, [world.append(0, 20, 30)])
    with serving(world) as endpoint:
        yield endpoint


def test_topics_are_found_and_their_records_read(endpoint: Endpoint) -> None:
    catalog = endpoint.client()
    assert catalog.list_namespaces() == [("headwater",)]
    assert catalog.list_tables("headwater") == [("headwater", "orders")]
    assert catalog.table_exists(ORDERS)
    assert not catalog.table_exists("headwater.payments")
    table = catalog.load_table(ORDERS)
    found = table.scan("partition = 0", selected_fields=("offset", "value")).to_arrow()
    assert sorted(found["offset"].to_pylist()) == list(range(30))
    assert b"v29" in found["value"].to_pylist()
    assert table.properties["headwater.topic"] == "orders"


def test_a_reader_sees_what_is_committed_after_it_connected(endpoint: Endpoint) -> None:
    table = endpoint.client().load_table(ORDERS)
    world = endpoint.world
    append_files(world.target(create=False), [world.append(1, 5, 9)])
    assert table.refresh().scan().to_arrow().num_rows == 39


def _append_to(catalog: RestCatalog, name: str) -> None:
    table = catalog.load_table(name)
    table.append(table.scan(limit=1).to_arrow())


def _add_column(catalog: RestCatalog) -> None:
    with catalog.load_table(ORDERS).update_schema() as update:
        update.add_column("mine", LongType())


def _set_property(catalog: RestCatalog) -> None:
    with catalog.load_table(ORDERS).transaction() as transaction:
        transaction.set_properties({"gc.enabled": "true"})


def _expire(catalog: RestCatalog) -> None:
    table = catalog.load_table(ORDERS)
    oldest = table.snapshots()[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(oldest).commit()


def _rename_into(catalog: RestCatalog) -> None:
    catalog.create_table("lake.t", SCHEMA).append(pa.table({"id": [1], "name": ["a"]}))
    catalog.rename_table("lake.t", "headwater.t")


CHANGES: dict[str, Callable[[RestCatalog], object]] = {
    "drop": lambda catalog: catalog.drop_table(ORDERS),
    "purge": lambda catalog: catalog.purge_table(ORDERS),
    "rename": lambda catalog: catalog.rename_table(ORDERS, "lake.mine"),
    "append": lambda catalog: _append_to(catalog, ORDERS),
    "delete rows": lambda catalog: catalog.load_table(ORDERS).delete("offset < 5"),
    "alter": _add_column,
    "set a property": _set_property,
    "expire": _expire,
    "create beside": lambda catalog: catalog.create_table("headwater.mine", SCHEMA),
    "stage beside": lambda catalog: catalog.create_table_transaction("headwater.mine", SCHEMA),
    "rename into": _rename_into,
    "create below": lambda catalog: catalog.create_namespace(("headwater", "below")),
    "namespace property": lambda catalog: catalog.update_namespace_properties(
        "headwater", updates={"owner": "me"}
    ),
    "drop namespace": lambda catalog: catalog.drop_namespace("headwater"),
    "register elsewhere": lambda catalog: catalog.register_table(
        "lake.mine", catalog.load_table(ORDERS).metadata_location
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_client_changes_a_log(endpoint: Endpoint, change: str) -> None:
    catalog = endpoint.client()
    catalog.create_namespace("lake")
    before = catalog.load_table(ORDERS).metadata_location
    with pytest.raises(ForbiddenError, match=r"Headwater|warehouse"):
        CHANGES[change](catalog)
    assert catalog.load_table(ORDERS).metadata_location == before
    assert rows(endpoint.world.target(create=False)) == span(0, 0, 30) + span(1, 0, 5)
    assert catalog.list_tables("headwater") == [("headwater", "orders")]


def test_a_log_with_a_name_of_its_own_is_known_by_its_properties(endpoint: Endpoint) -> None:
    target = endpoint.world.target(create=False)
    target.catalog.create_namespace("raw")
    target.catalog.rename_table(ORDERS, "raw.orders")
    catalog = endpoint.client()
    assert catalog.load_table("raw.orders").scan().to_arrow().num_rows == 35
    with pytest.raises(ForbiddenError, match=r"raw\.orders is a topic's log"):
        catalog.drop_table("raw.orders")
    with pytest.raises(ForbiddenError, match=r"raw\.orders is a topic's log"):
        _append_to(catalog, "raw.orders")


@pytest.mark.parametrize(
    "spelling", ["headwater%20", "%20headwater", "HEADWATER", "headwater%1F", ".headwater"]
)
def test_no_other_spelling_gets_past_the_guard(endpoint: Endpoint, spelling: str) -> None:
    answer = endpoint.ask("DELETE", f"/v1/namespaces/{spelling}/tables/orders")
    assert answer.status in (403, 404)
    body = {"name": "mine", "schema": SCHEMA.model_dump(mode="json")}
    assert endpoint.ask("POST", f"/v1/namespaces/{spelling}/tables", body).status in (403, 404)
    assert endpoint.client().list_tables("headwater") == [("headwater", "orders")]


def test_a_purge_leaves_the_files_of_a_log_that_were_added_to_a_users_table(
    endpoint: Endpoint,
) -> None:
    catalog = endpoint.client()
    catalog.create_namespace("lake")
    log = catalog.load_table(ORDERS)
    files = [task.file.file_path for task in log.scan().plan_files()]
    mine = catalog.create_table("lake.mine", log.schema())
    mine.append(log.scan().to_arrow())
    mine.add_files(files)
    assert mine.scan().to_arrow().num_rows == 70
    catalog.purge_table("lake.mine")
    assert not list(Path(mine.location().removeprefix("file://")).rglob("*.*"))
    assert rows(endpoint.world.target(create=False)) == span(0, 0, 30) + span(1, 0, 5)
