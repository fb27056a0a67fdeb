"""The stores of one run as real servers, each reached through proxies that do harm."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from peers.etcd import start_etcd
from peers.minio import start_minio
from peers.oxia import start_oxia
from peers.postgres import start_postgres
from peers.s3_server import S3Server
from peers.service import Service
from peers.toxiproxy import Toxiproxy, start_toxiproxy
from peers.versitygw import start_versitygw

BUCKET = "headwater"


@dataclass(frozen=True, slots=True)
class FaultyStores:
    """Two servers and the proxy in front of them; URLs lead to them directly."""

    objects: Service
    objects_url: str
    environment: Mapping[str, str]
    metadata: Service
    metadata_url: str
    toxiproxy: Toxiproxy


@dataclass(frozen=True, slots=True)
class _Metadata:
    service: Service
    url: str


def _etcd(data: Path) -> _Metadata:
    server = start_etcd(data)
    return _Metadata(server, server.url())


def _postgres(data: Path) -> _Metadata:
    server = start_postgres(data)
    return _Metadata(server, server.url())


def _oxia(data: Path) -> _Metadata:
    server = start_oxia(data)
    return _Metadata(server, server.url())


METADATA: Mapping[str, Callable[[Path], _Metadata]] = {
    "etcd": _etcd,
    "postgres": _postgres,
    "oxia": _oxia,
}
OBJECTS: Mapping[str, Callable[[Path], S3Server]] = {
    "versitygw": start_versitygw,
    "minio": start_minio,
}


@contextmanager
def running_stores(directory: Path, metadata: str, objects: str) -> Iterator[FaultyStores]:
    """Both servers and the proxy, with an empty bucket; all end with the block."""
    with ExitStack() as ending:
        s3 = OBJECTS[objects](directory / objects)
        ending.callback(_end, s3)
        s3.create_bucket(BUCKET)
        store = METADATA[metadata](directory / metadata)
        ending.callback(_end, store.service)
        toxiproxy = start_toxiproxy(directory / "toxiproxy.log")
        ending.callback(_end, toxiproxy)
        yield FaultyStores(
            objects=s3,
            objects_url=s3.url(BUCKET),
            environment=s3.client_environment(),
            metadata=store.service,
            metadata_url=store.url,
            toxiproxy=toxiproxy,
        )


def _end(service: Service) -> None:
    service.thaw()
    service.kill()
