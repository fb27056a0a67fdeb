"""A client of the REST catalog names files that are not its table's, and files without end."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import write_manifest_list

from headwater.tables.catalog.metadata_catalog import MetadataCatalog
from headwater.tables.rest import purge, service
from tests.support.tables.rest_world import SCHEMA, Endpoint, serving
from tests.support.tables.world import TablesWorld

TABLE = "/v1/namespaces/lake/tables/t"
ROWS = pa.table({"id": [1], "name": ["a"]})


@pytest.fixture
def endpoint(world: TablesWorld) -> Iterator[Endpoint]:
    with serving(world) as found:
        found.client().create_namespace("lake")
        yield found


def add_snapshot(location: str, number: int = 1) -> dict[str, Any]:
    return {
        "action": "add-snapshot",
        "snapshot": {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": 2**41,
            "manifest-list": location,
            "summary": {"operation": "append"},
            "schema-id": 0,
        },
    }


def set_statistics(location: str) -> dict[str, Any]:
    common = {"snapshot-id": 1, "statistics-path": location, "file-size-in-bytes": 1}
    return {
        "action": "set-statistics",
        "snapshot-id": 1,
        "statistics": {**common, "file-footer-size-in-bytes": 1, "blob-metadata": []},
    }


def set_partition_statistics(location: str) -> dict[str, Any]:
    common = {"snapshot-id": 1, "statistics-path": location, "file-size-in-bytes": 1}
    return {"action": "set-partition-statistics", "partition-statistics": common}


@pytest.mark.parametrize("update", [add_snapshot, set_statistics, set_partition_statistics])
@pytest.mark.parametrize(
    "location",
    [
        "file:///dev/zero",
        "http://127.0.0.1:1/x",
        "{objects}/tables/id-1/metadata/x.avro",
        "{objects}/warehouse/lake/other/metadata/x.avro",
        "{objects}/warehouse/lake/t/../other/x.avro",
    ],
)
def test_a_file_that_is_not_the_tables_own_is_refused(
    endpoint: Endpoint, update: Any, location: str
) -> None:
    endpoint.client().create_table("lake.t", SCHEMA)
    place = location.format(objects=endpoint.world.objects_url)
    answer = endpoint.ask("POST", TABLE, {"updates": [update(place)]})
    assert (answer.status, answer.kind) == (403, "ForbiddenException")
    create = {"requirements": [{"type": "assert-create"}], "updates": [update(place)]}
    answer = endpoint.ask("POST", "/v1/namespaces/lake/tables/u", create)
    assert (answer.status, answer.kind) == (403, "ForbiddenException")


def test_a_table_may_keep_its_metadata_elsewhere_in_the_warehouse(endpoint: Endpoint) -> None:
    place = f"{endpoint.warehouse}/manifests"
    catalog = endpoint.client()
    table = catalog.create_table("lake.t", SCHEMA, properties={"write.metadata.path": place})
    table.append(ROWS)
    assert catalog.load_table("lake.t").scan().to_arrow().num_rows == 1
    catalog.purge_table("lake.t")


def test_a_purge_opens_no_file_of_others(endpoint: Endpoint, tmp_path: Path) -> None:
    """Not even one that a manifest list in the table's own place names."""
    catalog = endpoint.client()
    table = catalog.create_table("lake.t", SCHEMA)
    table.append(ROWS)
    manifest_list = table.refresh().current_snapshot()
    assert manifest_list is not None
    (manifest,) = manifest_list.manifests(table.io)
    pipe = tmp_path / "endless"
    os.mkfifo(pipe)  # a process that opens it waits for ever
    path = Path(manifest_list.manifest_list.removeprefix("file://"))
    path.unlink()
    manifest[0] = f"file://{pipe}"
    assert manifest.manifest_path == f"file://{pipe}"
    output = table.io.new_output(manifest_list.manifest_list)
    with write_manifest_list(2, output, manifest_list.snapshot_id, None, 1, "null") as writer:
        writer.add_manifests([manifest])
    began = time.monotonic()
    assert endpoint.ask("DELETE", f"{TABLE}?purgeRequested=true").status == 204
    assert time.monotonic() - began < purge.WAIT_S
    assert pipe.exists()
    assert not path.exists()


def test_purges_that_hang_stop_no_other_request(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "WAIT_S", 0.1)
    catalog = endpoint.client()
    released = threading.Event()

    def endless(*_args: object) -> None:
        released.wait()

    monkeypatch.setattr(purge, "purge", endless)
    try:
        for number in range(purge.MAX_WAITING):
            catalog.create_table(f"lake.t{number}", SCHEMA)
            catalog.purge_table(f"lake.t{number}")
        catalog.create_table("lake.t", SCHEMA)
        answer = endpoint.ask("DELETE", f"{TABLE}?purgeRequested=true")
        assert (answer.status, answer.kind) == (503, "ServiceUnavailableException")
        assert endpoint.ask("GET", TABLE).status == 200
        assert endpoint.ask("DELETE", TABLE).status == 204
    finally:
        released.set()


def test_a_call_that_takes_too_long_is_answered(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def endless(self: Catalog, *_args: object) -> None:
        released.wait()

    monkeypatch.setattr(service, "CALL_TIMEOUT_S", 0.2)
    monkeypatch.setattr(MetadataCatalog, "load_table", endless)
    try:
        answer = endpoint.ask("GET", TABLE)
        assert (answer.status, answer.kind) == (503, "ServiceUnavailableException")
        answer = endpoint.ask("POST", TABLE, {"updates": []})
        assert (answer.status, answer.kind) == (500, "CommitStateUnknownException")
    finally:
        released.set()


def test_a_huge_file_is_no_metadata(endpoint: Endpoint) -> None:
    place = endpoint.world.directory / "objects/warehouse/huge.metadata.json"
    place.parent.mkdir(parents=True)
    with place.open("wb") as file:
        file.truncate(purge.MAX_METADATA_BYTES + 1)
    body = {"name": "t", "metadata-location": f"file://{place}"}
    answer = endpoint.ask("POST", "/v1/namespaces/lake/register", body)
    assert (answer.status, answer.kind) == (400, "BadRequestException")
