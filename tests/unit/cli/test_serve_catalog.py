"""``headwater serve --catalog``: the Iceberg REST catalog beside a broker."""

import json
import socket
from pathlib import Path
from urllib.request import urlopen

from peers.process import free_port
from tests.unit.cli.conftest import serve, start


def test_a_broker_serves_its_tables_and_its_clients_at_once(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    broker = serve(tmp_path / "data", "--catalog", address)
    try:
        with urlopen(f"http://{address}/v1/namespaces", timeout=20) as answer:
            assert json.load(answer)["namespaces"] == []
        broker.ok("produce", "greetings", stdin="hello\n")
        assert broker.ok("consume", "greetings") == "hello\n"
    finally:
        assert broker.stop() == 0
    assert not (tmp_path / "data/catalog.db").exists()  # the catalog is with the metadata


def test_a_catalog_that_cannot_be_served_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = refused("--data", tmp_path / "data", "--catalog", address)
        assert f"cannot serve the catalog on {address}: Address already in use" in line
    memory = ["--objects", "memory://", "--metadata", "memory://"]
    line = refused(*memory, "--catalog", "127.0.0.1:0")
    assert "tables need objects in a directory (file:///) or a bucket (s3://)" in line


def refused(*arguments: object) -> str:
    """What a broker says that does not start."""
    process = start("--listen", "127.0.0.1:0", *arguments)
    _, errors = process.communicate(timeout=40)
    assert process.returncode == 1
    return errors
