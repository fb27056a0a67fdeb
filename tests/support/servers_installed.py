"""Servers are built before the first test, whose time is not theirs."""

from collections.abc import Callable, Collection, Mapping

import pytest

from peers import etcd, minio, oxia, postgres, toxiproxy, versitygw

INSTALL: Mapping[str, Callable[[], object]] = {
    "etcd": etcd.install,
    "minio": minio.install,
    "oxia": oxia.install,
    "postgres": postgres.install,
    "toxiproxy": toxiproxy.install,
    "versitygw": versitygw.install,
}


def install_servers(session: pytest.Session, always: Collection[str] = ()) -> None:
    """Install those that tests are named after, and what all of them need, if any will run."""
    if session.config.option.collectonly:
        return
    for name, install in INSTALL.items():
        if any(name in item.nodeid or name in always for item in session.items):
            install()
