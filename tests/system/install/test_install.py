"""The wheel and the source distribution, installed by pip, uv and pipx into an empty home.

Nothing of the clone is on the path, and commands run in an empty directory. ``pip`` and ``pipx``
get the wheel, ``uv`` the source distribution.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from peers.process import free_port

ROOT = Path(__file__).parents[3]
UV = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
INDEX_SETTINGS = ("PIP_", "UV_", "SSL_", "HTTP", "NO_PROXY", "http", "no_proxy")
"""Variables that say where packages come from; everything else is left behind."""
EXTRAS: Sequence[tuple[str, Sequence[str]]] = (
    ("spark", ("table", "compact", "greetings")),
    ("table", ("fsck",)),
    ("etcd", ("status", "--metadata", "etcd://127.0.0.1:1/absent")),
    ("oxia", ("status", "--metadata", "oxia://127.0.0.1:1/absent/absent")),
    ("postgres", ("status", "--metadata", "postgres://127.0.0.1:1/absent")),
)
"""Extras that are not installed, and a command that needs each."""
FOREIGN_PROGRAM = """\
from headwater.clock import SystemClock

def today(clock: SystemClock) -> str:
    return clock.now_ms()
"""

pytestmark = pytest.mark.timeout(240)  # packages are downloaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Distributions:
    wheel: Path
    source: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyHome:
    """A home directory with nothing in it, and the commands that run there."""

    path: Path
    downloads: Path
    """What pip has downloaded in this run of the tests."""

    def run(self, *command: str | Path, text: str = "", code: int = 0) -> str:
        """Run a command that must end with ``code``; what it printed."""
        done = subprocess.run(
            command, check=False, input=text, cwd=self.path, env=self.environment(), timeout=120,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == code, f"{command}: {done.stdout}"
        return done.stdout

    def environment(self) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if name.startswith(INDEX_SETTINGS)
        }
        return kept | {
            "HOME": str(self.path),
            "PATH": os.defpath,
            "PIP_CACHE_DIR": str(self.downloads),
            "PIP_NO_COMPILE": "1",
        }

    @contextmanager
    def serving(self, headwater: Path) -> Iterator[str]:
        """A broker with its data in this directory; the address that it listens on."""
        address = f"127.0.0.1:{free_port()}"
        with subprocess.Popen(
            [headwater, "serve", "--listen", address],
            cwd=self.path, env=self.environment(), stdout=subprocess.PIPE, text=True,
        ) as broker:  # fmt: skip
            assert broker.stdout is not None
            try:
                assert "listens on" in broker.stdout.readline()
                yield address
            finally:
                broker.terminate()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([UV, "build", "--quiet", "--out-dir", folder, ROOT], check=True, timeout=120)
    return Distributions(wheel=_only(folder, "*.whl"), source=_only(folder, "*.tar.gz"))


def _only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture
def home(tmp_path: Path, downloads: Path) -> EmptyHome:
    path = tmp_path / "a home"
    path.mkdir()
    return EmptyHome(path=path, downloads=downloads)


def test_pip_installs_the_wheel_with_its_types(built: Distributions, home: EmptyHome) -> None:
    home.run(sys.executable, "-m", "venv", "environment")
    python = home.path / "environment" / "bin" / "python"
    home.run(python, "-m", "pip", "install", "--quiet", built.wheel)
    check_command(python.with_name("headwater"), home)
    (home.path / "program.py").write_text(FOREIGN_PROGRAM)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "program.py")
    found = home.run(*mypy, code=1)
    assert 'Incompatible return value type (got "int", expected "str")' in found
    assert "Found 1 error in 1 file" in found


def test_uv_installs_the_source_distribution_as_a_tool(
    built: Distributions, home: EmptyHome
) -> None:
    home.run(UV, "tool", "install", "--quiet", "--python", sys.executable, built.source)
    check_command(home.path / ".local" / "bin" / "headwater", home)


def test_pipx_installs_the_wheel(built: Distributions, home: EmptyHome) -> None:
    python = ("--python", sys.executable)
    home.run(UV, "tool", "run", *python, "pipx", "install", *python, built.wheel)
    check_command(home.path / ".local" / "bin" / "headwater", home)


def check_command(headwater: Path, home: EmptyHome) -> None:
    """The command serves, produces and consumes, and says how an extra is added here."""
    assert re.fullmatch(r"headwater \d+\.\d+\.\d+\n", home.run(headwater, "--version"))
    with home.serving(headwater) as address:
        client = ("--bootstrap", address)
        home.run(headwater, "produce", "greetings", *client, text="hello\n")
        assert home.run(headwater, "consume", "greetings", *client) == "hello\n"
    for extra, command in EXTRAS:
        assert f"pip install 'headwater[{extra}]'" in home.run(headwater, *command, code=1)
