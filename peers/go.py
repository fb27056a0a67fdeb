"""franz-go and Sarama, built from ``go_clients`` with Go 1.26 or later."""

from pathlib import Path

from peers.go_tool import go_build
from peers.install import built_once

SOURCES = Path(__file__).parent / "go_clients"


def install(client: str) -> Path:
    """The program of ``client``: ``franz`` or ``sarama``."""
    return built_once("go-clients", SOURCES, _build) / client


def _build(folder: Path) -> None:
    go_build(SOURCES, "./franz", "./sarama", output=f"{folder}/")
