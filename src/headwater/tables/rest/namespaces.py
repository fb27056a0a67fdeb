"""Namespaces: listed, loaded, created, changed and dropped."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
)

from headwater.tables.rest.errors import (
    BadRequest,
    Conflict,
    NotFound,
    Unprocessable,
    no_namespace,
)
from headwater.tables.rest.guard import Guard, checked_namespace
from headwater.tables.rest.models import (
    CreateNamespaceRequest,
    UpdateNamespacePropertiesRequest,
)
from headwater.tables.rest.pages import Page, page_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_MARKER: Final = "exists"
"""A SQL catalog stores a namespace as its properties, so that one without any does not exist."""


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Operations on the namespaces of a catalog."""

    catalog: "Catalog"
    guard: Guard

    def list(self, parent: tuple[str, ...], page: Page) -> dict[str, object]:
        """The namespaces directly below ``parent``; those at the top if it is empty."""
        try:
            found = self.catalog.list_namespaces(parent)
        except NoSuchNamespaceError:
            raise no_namespace(parent) from None
        names, token = page_of(found, page)
        return {"namespaces": names, "next-page-token": token}

    def load(self, namespace: tuple[str, ...]) -> dict[str, object]:
        return {"namespace": namespace, "properties": self.properties(namespace)}

    def properties(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """Raises ``NotFound``."""
        try:
            return dict(self.catalog.load_namespace_properties(namespace))
        except NoSuchNamespaceError:
            raise no_namespace(namespace) from None

    def create(self, request: CreateNamespaceRequest) -> dict[str, object]:
        try:
            namespace = checked_namespace(request.namespace)
        except NotFound:
            raise BadRequest(f"{request.namespace!r} is not a namespace") from None
        self.guard.check_namespace_change(namespace)
        self.guard.check_places(request.properties)
        marker = {_MARKER: "true"} if self.catalog.properties.get("type") == "sql" else {}
        try:
            self.catalog.create_namespace(namespace, marker | request.properties)
        except NamespaceAlreadyExistsError:
            raise Conflict(
                f"Namespace already exists: {'.'.join(namespace)}", "AlreadyExistsException"
            ) from None
        return self.load(namespace)

    def update(
        self, namespace: tuple[str, ...], request: UpdateNamespacePropertiesRequest
    ) -> dict[str, object]:
        self.guard.check_namespace_change(namespace)
        self.guard.check_places(request.updates)
        if both := set(request.removals) & request.updates.keys():
            raise Unprocessable(f"cannot both set and remove: {', '.join(sorted(both))}")
        try:
            summary = self.catalog.update_namespace_properties(
                namespace, set(request.removals) - {_MARKER}, request.updates
            )
        except NoSuchNamespaceError:
            raise no_namespace(namespace) from None
        return {
            "updated": sorted(summary.updated),
            "removed": sorted(summary.removed),
            "missing": sorted(summary.missing),
        }

    def drop(self, namespace: tuple[str, ...]) -> None:
        self.guard.check_namespace_change(namespace)
        try:
            # If there are children, a SQL catalog would drop the properties and keep the namespace.
            children = self.catalog.list_namespaces(namespace)
            if not children:
                self.catalog.drop_namespace(namespace)
        except NoSuchNamespaceError:
            raise no_namespace(namespace) from None
        except NamespaceNotEmptyError:
            children = [namespace]
        if children:
            raise Conflict(
                f"Namespace is not empty: {'.'.join(namespace)}", "NamespaceNotEmptyException"
            )
