"""A running REST catalog over a directory, and what speaks to it."""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from headwater.http1 import HttpLimits
from headwater.tables.rest.server import CatalogServer, catalog_server
from tests.support.tables.world import TablesWorld

SCHEMA = Schema(
    NestedField(field_id=1, name="id", field_type=LongType(), required=False),
    NestedField(field_id=2, name="name", field_type=StringType(), required=False),
)


@dataclass(frozen=True)
class CatalogAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        """The type of an error's body."""
        error = self.json["error"]
        assert error["code"] == self.status
        return str(error["type"])


@dataclass(frozen=True)
class Endpoint:
    """Where a catalog listens."""

    world: TablesWorld
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def warehouse(self) -> str:
        return f"{self.world.objects_url}/warehouse"

    def client(self, **properties: str) -> RestCatalog:
        return RestCatalog("remote", uri=self.url, **properties)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> CatalogAnswer:
        """One request on a connection of its own; a body that is no bytes is sent as JSON."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"} if sent is not None else {}
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, sent, {**kind, **names})
            answer = connection.getresponse()
            return CatalogAnswer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()


@contextmanager
def serving(world: TablesWorld, server: CatalogServer | None = None) -> Iterator[Endpoint]:
    """The catalog of a world, on an event loop in a thread, as beside a broker."""
    server = server or catalog_server(
        world.settings,
        data=world.directory,
        metadata_url=world.metadata_url,
        objects_url=world.objects_url,
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result()
        yield Endpoint(world, port)
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


SMALL = HttpLimits(head_bytes=2048, body_bytes=4096, connections=4, idle_s=5, receive_s=0.5)
