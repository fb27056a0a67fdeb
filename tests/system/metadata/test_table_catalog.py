"""On every backend one table catalog is seen from every data directory."""

from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceNotEmptyError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from headwater.tables.catalog.catalogs import open_catalog
from headwater.tables.settings import TableSettings
from tests.system.metadata.conftest import OpenedData

SCHEMA = Schema(NestedField(field_id=1, name="id", field_type=LongType(), required=False))


def test_two_processes_see_one_catalog(backend: OpenedData, tmp_path: Path) -> None:
    def catalog(name: str) -> Catalog:
        return open_catalog(
            TableSettings(),
            data=tmp_path / name,
            metadata_url=backend.url,
            objects_url=f"file://{tmp_path}/objects",
        )

    with closing(catalog("one")) as one, closing(catalog("two")) as two:
        one.create_namespace(("lake", "raw"))
        table = one.create_table("lake.raw.t", SCHEMA)
        with table.transaction() as change:
            change.set_properties({"a": "1"})
        assert two.load_table("lake.raw.t").properties["a"] == "1"
        with pytest.raises(TableAlreadyExistsError):
            two.create_table("lake.raw.t", SCHEMA)
        two.rename_table("lake.raw.t", "lake.raw.u")
        assert one.list_tables("lake.raw") == [("lake", "raw", "u")]
        with pytest.raises(NamespaceNotEmptyError):
            one.drop_namespace("lake.raw")
        two.drop_table("lake.raw.u")
        one.drop_namespace("lake.raw")
        assert two.list_namespaces("lake") == []
    assert not list(tmp_path.glob("**/*.db"))
