"""How a peer gets onto the machine: a cache folder of our own, and the system's packages."""

import os
import shutil
import subprocess
from pathlib import Path

from peers.process import tail


class InstallError(RuntimeError):
    """Something that a suite needs is missing and could not be installed: the suite fails."""


def cache_folder() -> Path:
    """Where peers are kept between runs: ``HEADWATER_PEERS``, else a folder in the user's cache."""
    chosen = os.environ.get("HEADWATER_PEERS")
    folder = Path(chosen) if chosen else Path.home() / ".cache" / "headwater-peers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


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
