"""What the documents name exists: files, names in files, links, and the layers of imports."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "headwater"
MAP = ROOT / "docs" / "architecture.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

_FENCE = re.compile(r"^\s*```.*?^\s*```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w./-]+(?:\.(?:py|md|toml|svg)|/)|(?:src|tests|docs|bench|scripts)/[\w./-]+")
_NAME_IN_FILE = re.compile(r"`([A-Za-z_][\w.]*)`\s+in\s+`([\w/]+\.py)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", page.read_text())


@cache
def source_files() -> frozenset[str]:
    folders = ("src", "tests", "bench", "scripts")
    return frozenset(
        str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).rglob("*.py")
    )


@cache
def names_in(path: Path) -> frozenset[str]:
    """The names that a module defines, with those of its classes as ``Class.name``."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        for name in _defined(node):
            names.add(name)
            if isinstance(node, ast.ClassDef):
                names |= {f"{name}.{inner}" for part in node.body for inner in _defined(part)}
    return frozenset(names)


def _defined(node: ast.stmt) -> list[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def anchors(page: Path) -> set[str]:
    """The fragments by which a page's headings are linked."""
    headings = _HEADING.findall(prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_map_names_only_files_and_folders_that_exist() -> None:
    paths = [span for span in _CODE.findall(prose(MAP)) if _PATH.fullmatch(span)]
    assert paths
    missing = [
        path
        for path in paths
        if not (SOURCE / path).exists()
        and not (ROOT / path).exists()
        and not any(known.endswith("/" + path) for known in source_files())
    ]
    assert not missing


def test_the_map_names_only_what_its_files_define() -> None:
    named = _NAME_IN_FILE.findall(prose(MAP))
    assert named
    missing = [f"{path}: {name}" for name, path in named if name not in names_in(SOURCE / path)]
    assert not missing


def test_the_map_draws_the_layers_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    checked = next(each["layers"] for each in contracts["contracts"] if each["type"] == "layers")
    drawn = re.search(r"^```text\n(.*?)^```", MAP.read_text(), re.MULTILINE | re.DOTALL)
    assert drawn is not None
    assert [line.split("  ")[0] for line in drawn[1].splitlines()] == checked


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_a_module_that_a_page_names_exists(page: Path) -> None:
    named = [span for span in _CODE.findall(prose(page)) if re.fullmatch(r"[\w/]+\.py", span)]
    missing = [
        name
        for name in named
        if not any(f"/{path}".endswith(f"/{name}") for path in source_files())
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_a_page_s_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(prose(page)):
        target, _, fragment = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        there = (page.parent / target).resolve() if target else page
        if not there.exists() or (fragment and fragment not in anchors(there)):
            broken.append(link)
    assert not broken
