"""Kafka's own Java client, compiled from ``java_client`` against Kafka's jars."""

import subprocess
from pathlib import Path

from peers import kafka
from peers.install import InstallError, built_once, require_command
from peers.process import tail

SOURCES = Path(__file__).parent / "java_client"


def install() -> list[str]:
    """The command that runs the program."""
    classes = built_once("java-client", SOURCES, _build)
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return kafka.java_command("Main", heap="512m", options=options, classes=[classes])


def _build(folder: Path) -> None:
    compiler = require_command("javac", "default-jdk-headless")
    jars = kafka.install()
    done = subprocess.run(
        [compiler, "-d", folder, "-cp", f"{jars}/*", *sorted(SOURCES.glob("*.java"))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise InstallError(f"the Java client's program could not be compiled: {tail(done)}")
