"""Every peer by name, and what brings it onto this machine: at once where it is there already."""

from collections.abc import Callable
from functools import partial

from peers import (
    etcd,
    go,
    iceberg_rest,
    java,
    kafka,
    kcat,
    minio,
    node,
    oxia,
    postgres,
    toxiproxy,
    versitygw,
)

INSTALL: dict[str, Callable[[], object]] = {
    "kafka": kafka.install,
    "kcat": kcat.install,
    "java": java.install,
    "newest-java": java.install_newest,
    "go": partial(go.install, "franz"),
    "node": node.install,
    "versitygw": versitygw.install,
    "iceberg-rest": iceberg_rest.install,
    "etcd": etcd.install,
    "toxiproxy": toxiproxy.install,
    "postgres": postgres.install,
    "oxia": oxia.install,
    "minio": minio.install,
}
