"""The catalog's server: HTTP on the event loop, the catalog itself in threads of its own."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from headwater.errors import CatalogUnavailable, ConfigurationError, StoreError
from headwater.http1 import HttpLimits, HttpServer, Request, Response
from headwater.tables.catalog.catalogs import open_catalog
from headwater.tables.rest.answers import (
    RestError,
    StateUnknown,
    Unavailable,
    Unsupported,
    answer_error,
    refusal,
)
from headwater.tables.rest.guard import Guard
from headwater.tables.rest.routes import Route, find_route
from headwater.tables.rest.vending import Vending, vending
from headwater.tables.settings import TableSettings

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from headwater.tables.rest.operations import Operations

logger = logging.getLogger(__name__)

THREADS = 4
PATIENCE_S = 10.0
"""How long a start, or a request, waits for a catalog to be opened."""
CALL_S = 30.0
"""How long a request waits for its answer."""

T = TypeVar("T")


class CatalogServer:
    """Serves the tables of one catalog to every engine that speaks Iceberg's REST protocol.

    ``open_catalog`` is called in a thread: at the start, and again with a request while it
    raises ``CatalogUnavailable``, so that a broker starts and serves though the catalog is down.
    """

    def __init__(
        self,
        open_catalog: Callable[[], "Catalog"],
        guard: Guard,
        vending: Vending,
        limits: HttpLimits | None = None,
    ) -> None:
        self._open = open_catalog
        self._guard = guard
        self._vending = vending
        self._http = HttpServer(self._handle, refusal, limits)
        self._threads = ThreadPoolExecutor(THREADS, "headwater-catalog")
        self._opening = Lock()
        self._catalog: Catalog | None = None
        self._operations: Operations | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen. Returns the bound port.

        Raises ``ConfigurationError`` for a catalog that cannot be, ``OSError`` where it is not
        possible to listen.
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._in_thread(self._opened)
        except (CatalogUnavailable, TimeoutError) as error:
            logger.warning("The catalog does not answer yet", extra={"reason": str(error)})
        return await self._http.start(host, port)

    async def close(self) -> None:
        """Stop. A call of the catalog that hangs is not waited for."""
        await self._http.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._operations is not None:
            self._operations.close()
        if self._catalog is not None:
            await asyncio.to_thread(self._catalog.close)

    async def _handle(self, request: Request) -> Response:
        try:
            route = find_route(request.method, request.target)
            if not route.operation:
                raise Unsupported(f"this catalog does not offer {request.method} {request.target}")
            if request.body and not _is_json(request):
                return refusal(
                    HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a request's body is application/json"
                )
            async with asyncio.timeout(CALL_S):
                return await self._in_thread(partial(self._run, route, request))
        except TimeoutError:
            return answer_error(_too_slow(request))
        except RestError as error:
            return answer_error(error)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _run(self, route: Route, request: Request) -> Response:
        try:
            operations = self._opened()
            from headwater.tables.catalog.errors import catalog_errors
            from headwater.tables.rest.operations import Asked

            with catalog_errors(f"{request.method} {request.target}"):
                return operations.run(Asked(route, request))
        except NotImplementedError as error:
            raise Unsupported(str(error)) from error
        except (StoreError, ConfigurationError) as error:
            logger.warning("A catalog's request failed", extra={"reason": str(error)})
            raise Unavailable(str(error)) from error

    def _opened(self) -> "Operations":
        if not self._opening.acquire(timeout=PATIENCE_S):
            raise CatalogUnavailable("the catalog does not answer")
        try:
            if self._operations is None:
                catalog = self._open()  # says in one line what is missing, before an import fails
                from headwater.tables.rest.operations import Operations

                self._catalog = catalog
                self._operations = Operations(catalog, self._guard, self._vending)
            return self._operations
        finally:
            self._opening.release()


def catalog_server(
    settings: TableSettings, *, data: Path, metadata_url: str, objects_url: str
) -> CatalogServer:
    """A server for the catalog that the settings name. Raises ``ConfigurationError``."""
    return CatalogServer(
        partial(
            open_catalog,
            settings,
            data=data,
            metadata_url=metadata_url,
            objects_url=objects_url,
        ),
        Guard(settings.name, objects_url),
        vending(objects_url, credentials=settings.catalog_vends_credentials),
    )


def _too_slow(request: Request) -> RestError:
    reason = f"{request.method} {request.target} took more than {CALL_S:.0f} s"
    if request.method in ("GET", "HEAD"):
        return Unavailable(reason)
    return StateUnknown(f"{reason}; whether it was done is not known")


def _is_json(request: Request) -> bool:
    """Whether a body says that it is JSON: a web page cannot send that to another's server."""
    kind = request.headers.get("content-type", "").partition(";")[0]
    return kind.strip().lower() == "application/json"
