"""The catalog behind its routes: requests run in threads, because a catalog's calls block."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from headwater.errors import CatalogUnavailable, ConfigurationError, StoreError
from headwater.http.messages import HttpRequest, Response
from headwater.http.mounts import Mount, Route
from headwater.tables.catalog.catalogs import open_catalog
from headwater.tables.rest.errors import (
    RestError,
    StateUnknown,
    Unavailable,
    Unsupported,
    error_response,
    refusal,
)
from headwater.tables.rest.guard import Guard
from headwater.tables.rest.routes import SERVED, UNSUPPORTED, Names, method_and_path
from headwater.tables.rest.vending import Vending, vending
from headwater.tables.settings import TableSettings

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from headwater.tables.rest.operations import Operations

logger = logging.getLogger(__name__)

THREADS: Final = 4
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
OPEN_TIMEOUT_S = 10.0
"""How long a start, or a request, waits until the catalog is open."""
CALL_TIMEOUT_S = 30.0
"""How long a request may take."""

T = TypeVar("T")


class CatalogService:
    """The tables of one catalog, for every engine that speaks Iceberg's REST protocol.

    ``open_catalog`` is called in a thread: at the start, and again with each request while it
    raises ``CatalogUnavailable``, so that a broker starts although its catalog is down.
    """

    def __init__(
        self, open_catalog: Callable[[], "Catalog"], guard: Guard, vending: Vending
    ) -> None:
        self._open_catalog = open_catalog
        self._guard = guard
        self._vending = vending
        self._threads = ThreadPoolExecutor(THREADS, "headwater-catalog")
        self._opening = Lock()
        self._catalog: Catalog | None = None
        self._operations: Operations | None = None

    @property
    def mount(self) -> Mount:
        """The routes of the specification."""
        served = [
            Route(*method_and_path(route), partial(self._serve, operation))
            for route, operation in SERVED.items()
        ]
        unsupported = [Route(*method_and_path(route), _refuse) for route in UNSUPPORTED]
        return Mount(routes=[*served, *unsupported], refusal=refusal, max_body_bytes=MAX_BODY_BYTES)

    async def open(self) -> None:
        """Open the catalog, if it answers. Raises ``ConfigurationError`` for one that never can."""
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await self._in_thread(self._opened)
        except (CatalogUnavailable, TimeoutError) as error:
            logger.warning("The catalog does not answer yet", extra={"reason": str(error)})

    async def close(self) -> None:
        """Close the catalog. Calls that hang are abandoned."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._operations is not None:
            self._operations.close()
        if self._catalog is not None:
            await asyncio.to_thread(self._catalog.close)

    async def _serve(self, operation: str, request: HttpRequest) -> Response:
        try:
            names = Names.of(request)
            if request.body and not _is_json(request):
                return refusal(
                    HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a request's body is application/json"
                )
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await self._in_thread(partial(self._run, operation, names, request))
        except TimeoutError:
            return error_response(_timed_out(request))
        except RestError as error:
            return error_response(error)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _run(self, operation: str, names: Names, request: HttpRequest) -> Response:
        try:
            operations = self._opened()
            from headwater.tables.catalog.errors import catalog_errors
            from headwater.tables.rest.operations import Call

            with catalog_errors(f"{request.method} {request.target}"):
                return operations.run(operation, Call(names, request))
        except NotImplementedError as error:
            raise Unsupported(str(error)) from error
        except (StoreError, ConfigurationError) as error:
            logger.warning("Catalog request failed", extra={"reason": str(error)})
            raise Unavailable(str(error)) from error

    def _opened(self) -> "Operations":
        if not self._opening.acquire(timeout=OPEN_TIMEOUT_S):
            raise CatalogUnavailable("the catalog does not answer")
        try:
            if self._operations is None:
                catalog = self._open_catalog()  # names a missing extra before an import fails
                from headwater.tables.rest.operations import Operations

                self._catalog = catalog
                self._operations = Operations(catalog, self._guard, self._vending)
            return self._operations
        finally:
            self._opening.release()


def catalog_service(
    settings: TableSettings, *, data: Path, metadata_url: str, objects_url: str
) -> CatalogService:
    """The catalog that the settings name. Raises ``ConfigurationError``."""
    return CatalogService(
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


async def _refuse(request: HttpRequest) -> Response:
    reason = f"this catalog does not offer {request.method} {request.target}"
    return error_response(Unsupported(reason))


def _timed_out(request: HttpRequest) -> RestError:
    reason = f"{request.method} {request.target} took more than {CALL_TIMEOUT_S:.0f} s"
    if request.method in ("GET", "HEAD"):
        return Unavailable(reason)
    return StateUnknown(f"{reason}; it may still be done")


def _is_json(request: HttpRequest) -> bool:
    """Whether a body is sent as JSON; browsers do not let a web page send it to other sites."""
    kind = request.headers.get("content-type", "").partition(";")[0]
    return kind.strip().lower() == "application/json"
