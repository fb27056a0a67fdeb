"""Tables in a bucket: what the catalog tells an engine is enough to read and write them."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.tables.commit.changes import append_files
from headwater.tables.settings import TableSettings
from tests.support.tables.rest_world import SCHEMA, serving
from tests.support.tables.world import TablesWorld
from tests.unit.objects.conftest import s3_credentials, s3_endpoint, s3_url

__all__ = ["s3_credentials", "s3_endpoint", "s3_url"]


def test_an_engine_without_settings_of_its_own_reads_and_writes(
    tmp_path: Path, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TableSettings(catalog_vends_credentials=True)
    world = replace(TablesWorld.under(tmp_path, settings=settings), objects_url=s3_url)
    append_files(world.target(), [world.append(0, 0, 20)])
    with serving(world) as endpoint:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
            monkeypatch.delenv(name, raising=False)
        catalog = endpoint.client()
        assert catalog.load_table("headwater.orders").scan().to_arrow().num_rows == 20
        catalog.create_namespace("lake")
        table = catalog.create_table("lake.t", SCHEMA)
        assert table.location().startswith("s3://headwater/some/prefix/warehouse/lake/t")
        table.append(pa.table({"id": [1], "name": ["a"]}))
        assert catalog.load_table("lake.t").scan().to_arrow().num_rows == 1
        catalog.purge_table("lake.t")
        with pytest.raises(FileNotFoundError):
            table.scan().to_arrow()
