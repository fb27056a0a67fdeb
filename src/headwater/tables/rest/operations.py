"""What each route does, with a catalog: plain blocking calls, one for each request."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from headwater.http1 import Request, Response
from headwater.tables.names import TableName
from headwater.tables.rest.answers import BadRequest, NotFound
from headwater.tables.rest.commits import Commits
from headwater.tables.rest.guard import Guard, checked_namespace, checked_table
from headwater.tables.rest.models import (
    CommitTableRequest,
    CreateNamespaceRequest,
    CreateTableRequest,
    RegisterTableRequest,
    RenameTableRequest,
    UpdateNamespacePropertiesRequest,
    parse,
)
from headwater.tables.rest.namespaces import Namespaces
from headwater.tables.rest.pages import Page, wanted_page
from headwater.tables.rest.purge import Purges
from headwater.tables.rest.routes import SERVED, Route
from headwater.tables.rest.tables import Loaded, Tables
from headwater.tables.rest.vending import Vending

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

SEPARATOR: Final = "\x1f"
"""Between the levels of a namespace, where it stands in an address."""

_NOTHING = Response(status=HTTPStatus.NO_CONTENT)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, taken apart."""

    route: Route
    request: Request

    @property
    def namespace(self) -> tuple[str, ...]:
        return checked_namespace(self.route.path["namespace"].split(SEPARATOR))

    @property
    def table(self) -> TableName:
        return checked_table(self.namespace, self.route.path["table"])

    @property
    def page(self) -> Page:
        query = self.route.query
        return wanted_page(query.get("pageToken"), query.get("pageSize"))

    @property
    def body(self) -> bytes:
        return self.request.body


class Operations:
    """Every operation of ``SERVED``, by its name."""

    def __init__(self, catalog: "Catalog", guard: Guard, vending: Vending) -> None:
        self._vending = vending
        self._namespaces = Namespaces(catalog, guard)
        self._purges = Purges(guard)
        self._tables = Tables(catalog, self._namespaces, guard, vending, self._purges)
        self._commits = Commits(self._tables)

    def close(self) -> None:
        """Delete no more files."""
        self._purges.close()

    def run(self, asked: Asked) -> Response:
        """Raises ``RestError``, and whatever the catalog does."""
        operation: Callable[[Asked], Response] = getattr(self, asked.route.operation)
        return operation(asked)

    def config(self, _asked: Asked) -> Response:
        served = sorted(SERVED.keys() - {"GET /v1/config"})
        return _json({"defaults": self._vending.config, "overrides": {}, "endpoints": served})

    def list_namespaces(self, asked: Asked) -> Response:
        parent = asked.route.query.get("parent")
        levels = checked_namespace(parent.split(SEPARATOR)) if parent else ()
        return _json(self._namespaces.list(levels, asked.page))

    def create_namespace(self, asked: Asked) -> Response:
        return _json(self._namespaces.create(parse(CreateNamespaceRequest, asked.body)))

    def load_namespace(self, asked: Asked) -> Response:
        return _json(self._namespaces.load(asked.namespace))

    def namespace_exists(self, asked: Asked) -> Response:
        self._namespaces.load(asked.namespace)
        return _NOTHING

    def drop_namespace(self, asked: Asked) -> Response:
        self._namespaces.drop(asked.namespace)
        return _NOTHING

    def update_namespace(self, asked: Asked) -> Response:
        changes = parse(UpdateNamespacePropertiesRequest, asked.body)
        return _json(self._namespaces.update(asked.namespace, changes))

    def list_tables(self, asked: Asked) -> Response:
        return _json(self._tables.list(asked.namespace, asked.page))

    def create_table(self, asked: Asked) -> Response:
        return _table(self._tables.create(asked.namespace, parse(CreateTableRequest, asked.body)))

    def load_table(self, asked: Asked) -> Response:
        shown = asked.route.query.get("snapshots", "all").lower()
        if shown not in ("all", "refs"):
            raise BadRequest(f"snapshots is {shown!r}; expected all or refs")
        loaded = self._tables.load(asked.table, only_refs=shown == "refs")
        known = asked.request.headers.get("if-none-match", "")
        if loaded.etag in (tag.strip() for tag in known.split(",")):
            return Response(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": loaded.etag})
        return _table(loaded)

    def table_exists(self, asked: Asked) -> Response:
        self._tables.check_exists(asked.table)
        return _NOTHING

    def commit_table(self, asked: Asked) -> Response:
        loaded = self._commits.commit(asked.table, parse(CommitTableRequest, asked.body))
        return _json(
            {
                "metadata-location": loaded.metadata_location,
                "metadata": msgspec.Raw(loaded.metadata.model_dump_json().encode()),
            }
        )

    def drop_table(self, asked: Asked) -> Response:
        wanted = asked.route.query.get("purgeRequested", "false").lower()
        self._tables.drop(asked.table, with_files=wanted == "true")
        return _NOTHING

    def load_credentials(self, asked: Asked) -> Response:
        self._tables.check_exists(asked.table)
        return _json({"storage-credentials": self._vending.storage_credentials})

    def report_metrics(self, asked: Asked) -> Response:
        self._tables.check_exists(asked.table)
        return _NOTHING

    def register_table(self, asked: Asked) -> Response:
        wanted = parse(RegisterTableRequest, asked.body)
        return _table(self._tables.register(asked.namespace, wanted))

    def rename_table(self, asked: Asked) -> Response:
        self._tables.rename(parse(RenameTableRequest, asked.body))
        return _NOTHING

    def list_views(self, asked: Asked) -> Response:
        self._namespaces.load(asked.namespace)
        return _json({"identifiers": [], "next-page-token": None})

    def load_view(self, asked: Asked) -> Response:
        name = checked_table(asked.namespace, asked.route.path["view"])
        raise NotFound(f"View does not exist: {'.'.join(name)}", "NoSuchViewException")


def _json(value: object) -> Response:
    return Response(body=msgspec.json.encode(value))


def _table(loaded: Loaded) -> Response:
    return Response(
        body=msgspec.json.encode(loaded.answer()),
        headers={"ETag": loaded.etag} if loaded.metadata_location else {},
    )
