"""etcd 3.7: one member, or a cluster of several."""

import json
import time
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from peers.go_tool import go_program
from peers.process import ServerError, free_port
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
    peers = {"default": f"http://127.0.0.1:{free_port()}"}
    return _start(data, "default", peers, port=port, quota_bytes=quota_bytes)


@dataclass(frozen=True, slots=True)
class EtcdCluster:
    """Members of one cluster, each of which may be killed and started again."""

    members: list[Etcd]

    def url(self, prefix: str, *, first: Etcd) -> str:
        """All members for ``--metadata``; a store asks the first of them while it answers."""
        others = [member for member in self.members if member is not first]
        return f"etcd://{','.join(member.address for member in (first, *others))}/{prefix}"

    def leader(self, *, seconds: float = 20.0) -> Etcd:
        """The member that leads and says so itself: any other may be out of date."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for member in self.members:
                if _leads(member):
                    return member
            time.sleep(0.05)
        raise ServerError(f"etcd's members have no leader; see {self.members[0].log}")

    def stop(self) -> None:
        for member in self.members:
            member.stop()


def start_etcd_cluster(data: Path, members: int = 3) -> EtcdCluster:
    """A cluster with its members' data below ``data``."""
    peers = {f"m{number}": f"http://127.0.0.1:{free_port()}" for number in range(members)}
    with ThreadPoolExecutor(members) as pool:
        # At once: none of them answers before most of them are there.
        starting = [pool.submit(_start, data / name, name, peers) for name in peers]
    return EtcdCluster([each.result() for each in starting])


def _start(
    data: Path,
    name: str,
    peers: Mapping[str, str],
    *,
    port: int | None = None,
    quota_bytes: int = 2 << 30,
) -> Etcd:
    port = port or free_port()
    client = f"http://127.0.0.1:{port}"
    command: list[str | Path] = [
        install(), "--name", name, "--data-dir", data,
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peers[name], "--initial-advertise-peer-urls", peers[name],
        "--initial-cluster", ",".join(f"{each}={url}" for each, url in peers.items()),
        "--quota-backend-bytes", str(quota_bytes), "--log-level", "warn",
    ]  # fmt: skip
    log = data.with_name(f"{data.name}.log")
    return Etcd(command=command, ports=[port], log=log, health="/health")


def _leads(member: Etcd) -> bool:
    url = f"http://{member.address}/v3/maintenance/status"
    request = urllib.request.Request(url, data=b"{}")
    try:
        with urllib.request.urlopen(request, timeout=2) as answer:  # noqa: S310
            said = json.load(answer)
    except OSError:
        return False
    return bool(said.get("leader") == said["header"]["member_id"])
