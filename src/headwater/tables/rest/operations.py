"""What each route does with a catalog: one blocking call for each request."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from headwater.http.messages import HttpRequest, Response
from headwater.tables.names import TableName
from headwater.tables.rest.commits import Commits
from headwater.tables.rest.errors import BadRequest, NotFound
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
from headwater.tables.rest.routes import SERVED, Names
from headwater.tables.rest.tables import Loaded, Tables
from headwater.tables.rest.vending import Vending

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

SEPARATOR: Final = "\x1f"
"""Between the levels of a namespace in a path or a query."""

_NO_CONTENT = Response(status=HTTPStatus.NO_CONTENT)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, with what it names."""

    names: Names
    request: HttpRequest

    @property
    def namespace(self) -> tuple[str, ...]:
        return checked_namespace(self.names.path["namespace"].split(SEPARATOR))

    @property
    def table(self) -> TableName:
        return checked_table(self.namespace, self.names.path["table"])

    @property
    def page(self) -> Page:
        query = self.names.query
        return wanted_page(query.get("pageToken"), query.get("pageSize"))

    @property
    def body(self) -> bytes:
        return self.request.body


class Operations:
    """The operations of ``SERVED``, a method each."""

    def __init__(self, catalog: "Catalog", guard: Guard, vending: Vending) -> None:
        self._vending = vending
        self._namespaces = Namespaces(catalog, guard)
        self._purges = Purges(guard)
        self._tables = Tables(catalog, self._namespaces, guard, vending, self._purges)
        self._commits = Commits(self._tables)

    def close(self) -> None:
        """Stop deleting files."""
        self._purges.close()

    def run(self, operation: str, call: Call) -> Response:
        """Raises ``RestError``, and whatever the catalog raises."""
        method: Callable[[Call], Response] = getattr(self, operation)
        return method(call)

    def config(self, _call: Call) -> Response:
        served = sorted(SERVED.keys() - {"GET /v1/config"})
        return _json({"defaults": self._vending.config, "overrides": {}, "endpoints": served})

    def list_namespaces(self, call: Call) -> Response:
        parent = call.names.query.get("parent")
        levels = checked_namespace(parent.split(SEPARATOR)) if parent else ()
        return _json(self._namespaces.list(levels, call.page))

    def create_namespace(self, call: Call) -> Response:
        return _json(self._namespaces.create(parse(CreateNamespaceRequest, call.body)))

    def load_namespace(self, call: Call) -> Response:
        return _json(self._namespaces.load(call.namespace))

    def namespace_exists(self, call: Call) -> Response:
        self._namespaces.load(call.namespace)
        return _NO_CONTENT

    def drop_namespace(self, call: Call) -> Response:
        self._namespaces.drop(call.namespace)
        return _NO_CONTENT

    def update_namespace(self, call: Call) -> Response:
        changes = parse(UpdateNamespacePropertiesRequest, call.body)
        return _json(self._namespaces.update(call.namespace, changes))

    def list_tables(self, call: Call) -> Response:
        return _json(self._tables.list(call.namespace, call.page))

    def create_table(self, call: Call) -> Response:
        return _table(self._tables.create(call.namespace, parse(CreateTableRequest, call.body)))

    def load_table(self, call: Call) -> Response:
        shown = call.names.query.get("snapshots", "all").lower()
        if shown not in ("all", "refs"):
            raise BadRequest(f"snapshots is {shown!r}; expected all or refs")
        loaded = self._tables.load(call.table, only_refs=shown == "refs")
        known = call.request.headers.get("if-none-match", "")
        if loaded.etag in (tag.strip() for tag in known.split(",")):
            return Response(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": loaded.etag})
        return _table(loaded)

    def table_exists(self, call: Call) -> Response:
        self._tables.check_exists(call.table)
        return _NO_CONTENT

    def commit_table(self, call: Call) -> Response:
        loaded = self._commits.commit(call.table, parse(CommitTableRequest, call.body))
        return _json(
            {
                "metadata-location": loaded.metadata_location,
                "metadata": msgspec.Raw(loaded.metadata.model_dump_json().encode()),
            }
        )

    def drop_table(self, call: Call) -> Response:
        wanted = call.names.query.get("purgeRequested", "false").lower()
        self._tables.drop(call.table, with_files=wanted == "true")
        return _NO_CONTENT

    def load_credentials(self, call: Call) -> Response:
        self._tables.check_exists(call.table)
        return _json({"storage-credentials": self._vending.storage_credentials})

    def report_metrics(self, call: Call) -> Response:
        self._tables.check_exists(call.table)
        return _NO_CONTENT

    def register_table(self, call: Call) -> Response:
        wanted = parse(RegisterTableRequest, call.body)
        return _table(self._tables.register(call.namespace, wanted))

    def rename_table(self, call: Call) -> Response:
        self._tables.rename(parse(RenameTableRequest, call.body))
        return _NO_CONTENT

    def list_views(self, call: Call) -> Response:
        self._namespaces.load(call.namespace)
        return _json({"identifiers": [], "next-page-token": None})

    def load_view(self, call: Call) -> Response:
        name = checked_table(call.namespace, call.names.path["view"])
        raise NotFound(f"View does not exist: {'.'.join(name)}", "NoSuchViewException")


def _json(value: object) -> Response:
    return Response(body=msgspec.json.encode(value))


def _table(loaded: Loaded) -> Response:
    return Response(
        body=msgspec.json.encode(loaded.answer()),
        headers={"ETag": loaded.etag} if loaded.metadata_location else {},
    )
