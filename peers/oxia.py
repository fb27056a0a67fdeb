"""Oxia 0.14 in its standalone form: one process that holds every shard."""

from dataclasses import dataclass
from pathlib import Path

from peers.go_tool import Mend, go_program
from peers.process import free_port
from peers.service import Service


@dataclass(slots=True, kw_only=True)
class Oxia(Service):
    """A running server; ``address`` is its clients' gRPC port."""

    def url(self, namespace: str = "default") -> str:
        """What ``--metadata`` takes."""
        return f"oxia://{self.address}/{namespace}"


IN_ORDER = Mend(
    file="server/leader_controller.go",
    old="\tlc.Unlock()\n\trequest := requestSupplier(newOffset)\n",
    new="\tdefer lc.Unlock()\n\trequest := requestSupplier(newOffset)\n",
)
"""What Oxia mended in 0.14.2 (its pull request 738).

Two clients that write at once make a shard refuse every later write before that: a write's place
in the log is given under a lock that is let go before the write is there.
"""


def install() -> Path:
    """The program, built with Go the first time."""
    return go_program(
        "oxia",
        module="github.com/oxia-db/oxia",
        version="v0.14.0",
        package="github.com/oxia-db/oxia/cmd",
        mend=IN_ORDER,
    )


def start_oxia(data: Path, *, port: int | None = None, shards: int = 4) -> Oxia:
    """A server over ``data``; the number of ``shards`` is fixed by its first start."""
    port = port or free_port()
    metrics = free_port()
    command: list[str | Path] = [
        install(), "standalone", "-p", f"127.0.0.1:{port}", "-m", f"127.0.0.1:{metrics}",
        "--shards", str(shards), "--data-dir", data / "db", "--wal-dir", data / "wal",
    ]  # fmt: skip
    data.mkdir(parents=True, exist_ok=True)
    return Oxia(command=command, ports=[port, metrics], log=data / "oxia.log")
