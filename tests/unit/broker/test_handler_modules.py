"""Each handler module documents its API, and reads only fields that its requests have."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import pytest
from kio.index import load_request_schema

from headwater.broker import handlers
from headwater.wire.messages.api_versions import ADVERTISED, LOWEST_SERVED_PRODUCE, ApiKey
from headwater.wire.messages.schema import ENTITY, fields_of

MODULES = [
    import_module(f"{handlers.__name__}.{module.name}")
    for module in iter_modules(handlers.__path__)
]


def served_versions(key: ApiKey) -> range:
    versions = ADVERTISED[key]
    lowest = LOWEST_SERVED_PRODUCE if key == ApiKey.PRODUCE else versions.lowest
    return range(lowest, versions.highest + 1)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.API.name)
def test_a_handler_documents_its_versions_its_behaviour_and_what_it_leaves_out(
    module: ModuleType,
) -> None:
    served = served_versions(module.API.key)
    first, last = served[0], served[-1]
    versions = f"version {first}" if first == last else f"versions {first}-{last}"
    doc = inspect.getdoc(module) or ""
    assert re.match(rf"{module.API.name}, {versions}\b", doc)
    assert "\nBehaviour: " in doc
    assert "\nLeft out: " in doc


def optional_fields(module: ModuleType) -> set[str]:
    """The names that a module passes to ``optional_field``, itself or through ``_filter``."""
    names = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id not in ("optional_field", "_filter"):
                continue
            name = node.args[1]
            if isinstance(name, ast.Constant):
                names.add(str(name.value))
    return names


def field_names(entity: type) -> Iterator[str]:
    for field in fields_of(entity):
        yield field.name
        if field.type == ENTITY:
            assert field.entity is not None
            yield from field_names(field.entity)


@pytest.mark.parametrize(
    "module", [one for one in MODULES if optional_fields(one)], ids=lambda module: module.API.name
)
def test_optional_fields_are_in_some_versions_of_the_request_and_not_in_all(
    module: ModuleType,
) -> None:
    key = module.API.key
    by_version = [
        set(field_names(load_request_schema(key, version))) for version in served_versions(key)
    ]
    for name in optional_fields(module):
        assert any(name in names for names in by_version), f"{name} is no field of {key.name}"
        assert not all(name in names for names in by_version), f"{name} is in every version"
