"""kcat, the command-line client on librdkafka, from the system's packages."""

from pathlib import Path

from peers.install import require_command


def install() -> Path:
    return require_command("kcat", "kcat")
