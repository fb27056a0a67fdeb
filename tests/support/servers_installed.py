"""Servers and clients are built before the first test, whose time is not theirs."""

from collections.abc import Collection

import pytest

from peers.installed import INSTALL

SERVERS = ("etcd", "minio", "oxia", "postgres", "toxiproxy", "versitygw")
CLIENT_PROGRAMS = ("kafka", "kcat", "java", "newest-java", "go", "node")


def install_servers(session: pytest.Session, always: Collection[str] = ()) -> None:
    """Install the servers that the collected tests are named after, and ``always`` if any runs."""
    if session.config.option.collectonly:
        return
    for name in (*SERVERS, *(each for each in always if each not in SERVERS)):
        if any(name in item.nodeid or name in always for item in session.items):
            INSTALL[name]()
