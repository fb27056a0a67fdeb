"""Kafka's own Java client, compiled from ``java_client`` against Kafka's jars.

The program also runs with the jars of the newest client alone, which have no tools.
"""

import subprocess
from pathlib import Path

from peers import kafka
from peers.install import InstallError, built_once, maven_jars, require_command
from peers.process import tail

SOURCES = Path(__file__).parent / "java_client"
OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


NEWEST_CLIENT = Path(__file__).parent / "kafka" / "newest-client.xml"


def install() -> list[str]:
    """The command that runs the program."""
    return kafka.java_command("Main", heap="512m", options=OPTIONS, classes=[_classes()])


def install_newest() -> list[str]:
    """The command that runs the program with the newest client."""
    jars = maven_jars("kafka-clients-4.4.0", NEWEST_CLIENT)
    return kafka.java_command("Main", heap="512m", options=OPTIONS, classes=[_classes()], jars=jars)


def _classes() -> Path:
    return built_once("java-client", SOURCES, _build)


def _build(folder: Path) -> None:
    compiler = require_command("javac", "default-jdk-headless")
    jars = kafka.install()
    done = subprocess.run(
        [compiler, "-d", folder, "-cp", f"{jars}/*", *sorted(SOURCES.glob("*.java"))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise InstallError(f"the Java client's program could not be compiled: {tail(done)}")
