"""The REST catalog's answers on the wire, to requests that libraries do not send."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import ConfigResponse

from headwater.errors import CatalogUnavailable, ConfigurationError
from headwater.tables.commit.changes import append_files
from headwater.tables.rest.guard import Guard
from headwater.tables.rest.service import CatalogService, catalog_service
from headwater.tables.rest.vending import vending
from headwater.tables.settings import TableSettings
from tests.support.tables.rest_world import SCHEMA, Endpoint, serving
from tests.support.tables.world import TablesWorld

ORDERS = "/v1/namespaces/headwater/tables/orders"


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    world = TablesWorld.under(tmp_path)
    target = world.target()
    append_files(target, [world.append(0, 0, 5)])
    append_files(target, [world.append(0, 5, 9)])
    with serving(world) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """For requests that change nothing."""
    world = TablesWorld.under(tmp_path_factory.mktemp("shared"))
    append_files(world.target(), [world.append(0, 0, 5)])
    with serving(world) as endpoint:
        yield endpoint


def test_the_configuration_lists_what_is_served(shared: Endpoint) -> None:
    answer = shared.ask("GET", "/v1/config?warehouse=any")
    served = ConfigResponse.model_validate_json(answer.body).endpoints
    assert answer.headers["Content-Type"] == "application/json"
    assert served is not None
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in map(str, served)
    assert "POST /v1/{prefix}/transactions/commit" not in map(str, served)


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/v1/namespaces/sea", 404, "NoSuchNamespaceException"),
        ("GET", "/v1/namespaces/a.b", 404, "NoSuchNamespaceException"),
        ("GET", "/v1/namespaces/%1F", 404, "NoSuchNamespaceException"),
        ("GET", "/v1/namespaces?parent=sea", 404, "NoSuchNamespaceException"),
        ("GET", "/v1/namespaces/headwater/tables/t", 404, "NoSuchTableException"),
        ("GET", "/v1/namespaces/sea/tables/t", 404, "NoSuchTableException"),
        ("DELETE", "/v1/namespaces/sea/tables/t", 404, "NoSuchTableException"),
        ("GET", f"{ORDERS}?snapshots=some", 400, "BadRequestException"),
        ("GET", "/v1/namespaces?pageSize=0", 400, "BadRequestException"),
        ("GET", "/v1/namespaces?pageToken=%FF", 400, "BadRequestException"),
        ("GET", "/v1/namespaces?pageToken=abc", 400, "BadRequestException"),
        ("GET", "/v1/namespaces/%FF", 400, "BadRequestException"),
        ("GET", "/", 400, "BadRequestException"),
        ("PUT", "/v1/namespaces", 400, "BadRequestException"),
        ("GET", "/v1/namespaces/headwater/views/v", 404, "NoSuchViewException"),
        ("POST", "/v1/namespaces/headwater/views", 406, "UnsupportedOperationException"),
        ("POST", "/v1/transactions/commit", 406, "UnsupportedOperationException"),
        ("POST", f"{ORDERS}/plan", 406, "UnsupportedOperationException"),
        ("POST", "/v1/oauth/tokens", 406, "UnsupportedOperationException"),
    ],
)
def test_errors_have_the_body_of_the_specification(
    shared: Endpoint, method: str, path: str, status: int, kind: str
) -> None:
    answer = shared.ask(method, path)
    assert (answer.status, answer.kind) == (status, kind)
    assert answer.json["error"]["message"]


def test_a_foreign_host_is_refused_with_such_a_body(shared: Endpoint) -> None:
    answer = shared.ask("GET", "/v1/config", Host="evil.example")
    assert (answer.status, answer.kind) == (421, "MisdirectedRequestException")
    assert "http.allowed_hosts" in answer.json["error"]["message"]


def test_a_slash_at_the_end_of_a_path_makes_no_difference(shared: Endpoint) -> None:
    assert shared.ask("GET", "/v1/namespaces/").status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"namespace": "lake"}',
        b'{"namespace": []}',
        b'{"namespace": ["a.b"]}',
        b'{"namespace": [" a"]}',
        b'{"namespace": [1]}',
        b"[" * 100_000,
    ],
)
def test_a_body_that_is_not_what_it_should_be_is_a_bad_request(
    shared: Endpoint, body: bytes
) -> None:
    answer = shared.ask("POST", "/v1/namespaces", body)
    assert (answer.status, answer.kind) == (400, "BadRequestException")


COMMITS: list[dict[str, Any]] = [
    {"requirements": [{"type": "assert-nothing"}]},
    {"updates": [{"action": "explode"}]},
    {"updates": [{"action": "set-current-schema", "schema-id": 99}]},
    {"updates": [{"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": 1}]},
    {"updates": [{"action": "set-default-spec", "spec-id": 5}]},
    {"updates": [{"action": "add-schema", "schema": {"type": "struct", "fields": [{}]}}]},
    {"updates": [{"action": "upgrade-format-version", "format-version": 1}]},
    {"updates": "all"},
]


@pytest.mark.parametrize("commit", COMMITS)
def test_a_commit_that_cannot_be_is_a_bad_request(
    endpoint: Endpoint, commit: dict[str, Any]
) -> None:
    endpoint.ask("POST", "/v1/namespaces", {"namespace": ["lake"]})
    created = {"name": "t", "schema": SCHEMA.model_dump(mode="json")}
    before = endpoint.ask("POST", "/v1/namespaces/lake/tables", created).json
    answer = endpoint.ask("POST", "/v1/namespaces/lake/tables/t", commit)
    assert (answer.status, answer.kind) == (400, "BadRequestException")
    after = endpoint.ask("GET", "/v1/namespaces/lake/tables/t").json
    assert after["metadata-location"] == before["metadata-location"]


def test_only_json_is_taken(endpoint: Endpoint) -> None:
    answer = endpoint.ask(
        "POST", "/v1/namespaces", b'{"namespace": ["a"]}', Content_Type="text/plain"
    )
    assert answer.status == 415
    answer = endpoint.ask(
        "POST",
        "/v1/namespaces",
        b'{"namespace": ["a"]}',
        Content_Type="Application/JSON; charset=utf-8",
    )
    assert answer.status == 200


def test_a_request_may_not_be_too_long(shared: Endpoint) -> None:
    assert shared.ask("POST", "/v1/namespaces", b" " * 5_000_000).kind.startswith("Request")


def test_a_known_version_is_not_sent_again(endpoint: Endpoint) -> None:
    first = endpoint.ask("GET", ORDERS)
    again = endpoint.ask("GET", ORDERS, If_None_Match=first.headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    assert endpoint.ask("GET", ORDERS + "?snapshots=refs").headers["ETag"] != first.headers["ETag"]
    world = endpoint.world
    append_files(world.target(create=False), [world.append(0, 9, 12)])
    assert endpoint.ask("GET", ORDERS, If_None_Match=first.headers["ETag"]).status == 200


def test_a_reader_may_ask_for_the_named_snapshots_only(endpoint: Endpoint) -> None:
    every = endpoint.ask("GET", ORDERS).json["metadata"]
    named = endpoint.ask("GET", f"{ORDERS}?snapshots=refs").json["metadata"]
    assert len(every["snapshots"]) == 2
    assert [shot["snapshot-id"] for shot in named["snapshots"]] == [every["current-snapshot-id"]]
    table = endpoint.client(**{"snapshot-loading-mode": "refs"}).load_table("headwater.orders")
    assert table.scan().to_arrow().num_rows == 9


def test_names_with_odd_characters_are_carried_exactly(endpoint: Endpoint) -> None:
    catalog = endpoint.client()
    namespace = ("sea & sky", "50%", "ümlaut/x+y")
    catalog.create_namespace(namespace)
    catalog.create_table((*namespace, "t/1 +%?#"), SCHEMA)
    assert catalog.list_tables(namespace) == [(*namespace, "t/1 +%?#")]
    assert catalog.load_table((*namespace, "t/1 +%?#")).schema() == SCHEMA
    catalog.purge_table((*namespace, "t/1 +%?#"))


def test_a_catalog_that_comes_up_later_is_served_then(tmp_path: Path) -> None:
    world = TablesWorld.under(tmp_path)
    down = True

    def opened() -> Catalog:
        if down:
            raise CatalogUnavailable("no answer")
        return world.catalog()

    guard = Guard(world.settings.name, world.objects_url)
    service = CatalogService(opened, guard, vending(world.objects_url, credentials=False))
    with serving(world, service) as endpoint:
        answer = endpoint.ask("GET", "/v1/namespaces")
        assert (answer.status, answer.kind) == (503, "ServiceUnavailableException")
        down = False
        assert endpoint.ask("GET", "/v1/namespaces").status == 200


def test_objects_in_memory_have_no_tables(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="memory"):
        catalog_service(
            TableSettings(), data=tmp_path, metadata_url="memory://", objects_url="memory://"
        )


def test_credentials_are_handed_out_only_where_that_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    url = "s3://lake/prod?endpoint=http://127.0.0.1:9000&region=eu-central-1"
    kept = vending(url, credentials=False)
    assert kept.table_config == {
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.region": "eu-central-1",
        "client.region": "eu-central-1",
        "s3.path-style-access": "true",
        "s3.force-virtual-addressing": "false",
    }
    assert kept.storage_credentials == []
    given = vending(url, credentials=True)
    assert given.table_config["s3.secret-access-key"] == "secret"
    [credential] = given.storage_credentials
    assert credential["prefix"] == "s3://lake/prod/"


def test_local_files_need_nothing(tmp_path: Path) -> None:
    assert vending(f"file://{tmp_path}", credentials=True).table_config == {}
