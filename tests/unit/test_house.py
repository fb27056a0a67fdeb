"""Rules of the house: small files, folders seen at a glance, and one name for one class."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "headwater"
MAX_LINES = 400
MAX_MODULES = 15
FLAT = ("broker/handlers", "rpc")
"""One module for each Kafka API, and generated messages: they need no map."""

PACKAGES = {
    each.parent.relative_to(SRC).as_posix(): each.parent
    for each in sorted(SRC.rglob("__init__.py"))
    if not each.parent.as_posix().endswith(FLAT)
}


def written_files() -> Iterator[Path]:
    """Python files of the product and its tests, without those that are generated."""
    for folder in (SRC, ROOT / "tests"):
        yield from (each for each in folder.rglob("*.py") if not each.stem.endswith("_pb2"))


def modules(package: Path) -> set[str]:
    return {each.stem for each in package.glob("*.py")} - {"__init__", "__main__"}


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {each: len(each.read_text().splitlines()) for each in written_files()}
    assert [str(each) for each, length in lengths.items() if length > MAX_LINES] == []


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_has_few_modules(name: str) -> None:
    assert len(modules(PACKAGES[name])) <= MAX_MODULES


@pytest.mark.parametrize("name", PACKAGES)
def test_the_docstring_of_a_package_maps_it(name: str) -> None:
    package = PACKAGES[name]
    parts = modules(package) | {each.parent.name for each in package.glob("*/__init__.py")}
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    mapped = set(re.findall(r"``(\w+)``", docstring))
    assert parts - mapped == set()


def test_no_two_classes_have_one_name() -> None:
    places: Mapping[str, list[str]] = defaultdict(list)
    for each in written_files():
        for node in ast.parse(each.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(each.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
