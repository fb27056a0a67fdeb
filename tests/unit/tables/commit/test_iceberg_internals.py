"""What this project uses of pyiceberg's private names is there, and used in one module."""

import ast
import inspect
import tomllib
from pathlib import Path

import pyiceberg.catalog
import pyiceberg.table
import pyiceberg.table.update.snapshot as updates
import pytest

import headwater
from headwater.tables.commit import iceberg_internals
from tests.support.tables.world import NAME, TablesWorld

ROOT = Path(headwater.__file__).parent
PROJECT = ROOT.parent.parent / "pyproject.toml"

PRIVATE: dict[tuple[type, str], list[str]] = {
    (pyiceberg.catalog.MetastoreCatalog, "_update_and_stage_table"): [
        "current_table",
        "table_identifier",
        "requirements",
        "updates",
    ],
    (pyiceberg.catalog.MetastoreCatalog, "_write_metadata"): ["metadata", "io", "metadata_path"],
    (pyiceberg.catalog.MetastoreCatalog, "_load_file_io"): ["properties", "location"],
    (pyiceberg.catalog.MetastoreCatalog, "_convert_schema_if_needed"): [
        "schema",
        "format_version",
    ],
    (pyiceberg.catalog.MetastoreCatalog, "_get_updated_props_and_update_summary"): [
        "current_properties",
        "removals",
        "updates",
    ],
    (pyiceberg.table.Table, "_do_commit"): ["updates", "requirements"],
    (updates._FastAppendFiles, "_process_manifests"): ["manifests"],
    (updates._ManifestMergeManager, "_create_manifest"): ["spec_id", "manifest_bin"],
}
ATTRIBUTES = {
    "_snapshot_id",
    "_operation",
    "_io",
    "_transaction",
    "_written_manifests",
    "_written_manifest_lists",
}


@pytest.mark.parametrize(("owner", "name"), PRIVATE)
def test_a_private_function_is_where_it_was(owner: type, name: str) -> None:
    parameters = list(inspect.signature(getattr(owner, name)).parameters)
    assert [each for each in parameters if each != "self"] == PRIVATE[owner, name]


def test_a_private_attribute_is_where_it_was(world: TablesWorld) -> None:
    table = world.target().catalog.load_table(NAME)
    transaction = table.transaction()
    assert (transaction._updates, transaction._requirements) == ((), ())
    assert transaction._table is table
    assert vars(transaction.update_snapshot().fast_append()).keys() >= ATTRIBUTES


def private_names(tree: ast.AST) -> set[str]:
    """The names that begin with one underscore and are imported, or reached through a name."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyiceberg"):
            found |= {alias.name for alias in node.names if alias.name.startswith("_")}
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            found.add(node.attr)
    return found


def test_one_module_uses_them() -> None:
    private = {name for _, name in PRIVATE} | ATTRIBUTES - {"_io", "_transaction"}
    private |= {"_FastAppendFiles", "_ManifestMergeManager", "_requirements"}
    used = {
        str(path.relative_to(ROOT)): names
        for path in [*ROOT.glob("tables/**/*.py"), *ROOT.glob("pipeline/**/*.py")]
        if (names := private_names(ast.parse(path.read_text())) & private)
    }
    own = Path(iceberg_internals.__file__).relative_to(ROOT)
    assert used.keys() == {str(own)}
    imports = [
        path.name
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("pyiceberg")
        and any(alias.name.startswith("_") for alias in node.names)
    ]
    assert imports == [own.name]


def test_the_next_minor_release_is_not_taken_by_itself() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]["table"]
    (pin,) = [each for each in extras if each.startswith("pyiceberg")]
    assert pin.endswith(">=0.12,<0.13")
