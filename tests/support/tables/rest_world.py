"""A running REST catalog over a directory, and what speaks to it."""

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any, TypeVar

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from headwater.http.hosts import AllowedHosts
from headwater.http.server import HttpServer
from headwater.tables.rest.service import CatalogService, catalog_service
from tests.support.tables.world import TablesWorld

SCHEMA = Schema(
    NestedField(field_id=1, name="id", field_type=LongType(), required=False),
    NestedField(field_id=2, name="name", field_type=StringType(), required=False),
)


T = TypeVar("T")


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
        """One request on a new connection; a body that is not bytes is sent as JSON."""
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
def serving(world: TablesWorld, service: CatalogService | None = None) -> Iterator[Endpoint]:
    """The catalog of a world, on an event loop in a thread, as beside a broker."""
    service = service or catalog_service(
        world.settings,
        data=world.directory,
        metadata_url=world.metadata_url,
        objects_url=world.objects_url,
    )
    server = HttpServer([service.mount], AllowedHosts())
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    try:
        run(service.open())
        yield Endpoint(world, run(server.start("127.0.0.1", 0)))
    finally:
        run(server.close())
        run(service.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
