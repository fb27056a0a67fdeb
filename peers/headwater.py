"""Headwater itself as a server process, started the way a user starts it."""

import sys
from collections.abc import Mapping
from pathlib import Path

from peers.process import Server, free_port, start

COMMAND = Path(sys.executable).with_name("headwater")


def start_headwater(
    data: Path,
    *,
    port: int | None = None,
    workers: int = 1,
    metrics_port: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Server:
    """``headwater serve`` over ``data``; with several workers on consecutive ports."""
    port = port or free_port(consecutive=workers)
    command: list[str | Path] = [COMMAND, "serve", "--data", data, "--listen", f"127.0.0.1:{port}"]
    if workers > 1:
        command += ["--workers", str(workers)]
    if metrics_port is not None:
        command += ["--metrics", f"127.0.0.1:{metrics_port}"]
    ports = [port + worker for worker in range(workers)]
    log = data.with_name(f"{data.name}.log")
    return start(command, ports=ports, log=log, environment=environment, limit=20)
