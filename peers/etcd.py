"""etcd 3.7: one member."""

from dataclasses import dataclass
from pathlib import Path

from peers.go_tool import go_program
from peers.process import free_port
from peers.service import Service


@dataclass(slots=True, kw_only=True)
class Etcd(Service):
    """A running member; ``address`` is its clients' gRPC and HTTP port."""

    def url(self, prefix: str = "headwater") -> str:
        """What ``--metadata`` takes."""
        return f"etcd://{self.address}/{prefix}"


def install() -> Path:
    """The program, built with Go the first time."""
    return go_program(
        "etcd",
        module="go.etcd.io/etcd/server/v3",
        version="v3.7.3",
        package="go.etcd.io/etcd/server/v3",
    )


def start_etcd(data: Path, *, port: int | None = None, quota_bytes: int = 2 << 30) -> Etcd:
    """A cluster of one over ``data``, which refuses writes beyond ``quota_bytes``."""
    port = port or free_port()
    peer, client = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{port}"
    command: list[str | Path] = [
        install(), "--data-dir", data,
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
        "--initial-cluster", f"default={peer}",
        "--quota-backend-bytes", str(quota_bytes), "--log-level", "warn",
    ]  # fmt: skip
    log = data.with_name(f"{data.name}.log")
    return Etcd(command=command, ports=[port], log=log, health="/health")
