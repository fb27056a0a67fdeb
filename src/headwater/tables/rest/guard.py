"""What a client of the catalog may change, and at which locations.

Only Headwater changes a table that is a topic's log, because consumers read its files. The tables
of users are below one prefix of the object store, the warehouse. No request makes this process
read, write or delete a file elsewhere.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from headwater.tables.locations import object_location
from headwater.tables.names import TOPIC, TableName
from headwater.tables.rest.errors import BadRequest, Forbidden, Unsupported, no_namespace

WAREHOUSE: Final = "warehouse"
"""The prefix of users' tables. Those of topics are below ``tables``."""

_PLACES: Final = (
    "location",
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)

_OURS: Final = "headwater."

_REACH: Final = ("py-", "write.py-", "s3.", "client.", "gcs.", "adls.", "hdfs.", "oss.")
"""Properties that select code and servers for pyiceberg. Operators set them, not tables."""

_UNUSUAL = re.compile(r"[^A-Za-z0-9_.-]")
"""Characters that some engines do not accept in a path."""


def checked_namespace(levels: Iterable[str]) -> tuple[str, ...]:
    """A namespace that means the same in every catalog.

    pyiceberg joins levels by dots and strips blanks. Without this check two spellings would name
    one namespace, and a reserved one could pass as a user's.
    """
    namespace = tuple(levels)
    if not namespace or any(not _plain(level) or "." in level for level in namespace):
        raise no_namespace(namespace)
    return namespace


def checked_table(namespace: tuple[str, ...], name: str) -> TableName:
    if not _plain(name):
        raise BadRequest(f"{name!r} is not a table's name")
    return (*namespace, name)


def _plain(name: str) -> bool:
    return bool(name) and name == name.strip() and name.isprintable()


@dataclass(frozen=True, slots=True)
class Guard:
    """The rules of one object store and one name template of topics' tables."""

    template: str
    objects_url: str

    @property
    def warehouse(self) -> str:
        return object_location(self.objects_url, WAREHOUSE)

    @property
    def _reserved(self) -> tuple[str, ...] | None:
        """The namespace of topics' tables; None if each topic has its own."""
        namespace = self.template.split(".")[:-1]
        if any(TOPIC in level for level in namespace):
            return None
        return tuple(level.casefold() for level in namespace)

    def _holds_topics(self, namespace: tuple[str, ...]) -> bool:
        reserved = self._reserved
        if reserved is None:
            return False
        # Some catalogs ignore case.
        return tuple(level.casefold() for level in namespace[: len(reserved)]) == reserved

    def check_namespace_change(self, namespace: tuple[str, ...]) -> None:
        """Raises ``Forbidden`` for the namespace of topics' tables, and those below it."""
        if self._holds_topics(namespace):
            raise Forbidden(
                f"namespace {'.'.join(namespace)} is reserved for topics; only Headwater changes it"
            )

    def check_table_change(self, name: TableName, properties: Mapping[str, str] | None) -> None:
        """Raises ``Forbidden`` for a table that is a topic's, or a name that is reserved for them.

        ``properties`` are those of the table with this name; None if no table has it.
        """
        if properties is None and self._holds_topics(name[:-1]):
            raise Forbidden(
                f"namespace {'.'.join(name[:-1])} is reserved for topics; only Headwater "
                "creates tables in it, create yours in another"
            )
        if self._holds_topics(name[:-1]) or is_topic(properties or {}):
            raise Forbidden(
                f"table {'.'.join(name)} is a topic's log; only Headwater changes it. "
                "Produce to the topic to add records, delete the topic to drop the table"
            )

    def check_properties(self, properties: Iterable[str]) -> None:
        """Raises ``Forbidden`` for properties that affect more than their table."""
        for name in properties:
            if name.startswith(_OURS):
                raise Forbidden(f"property {name} is set by Headwater alone")
            if name.startswith(_REACH):
                raise Forbidden(
                    f"property {name} cannot be set on a table; set it in the engine's own catalog"
                )

    def check_format(self, version: str | int | None) -> None:
        """Raises ``Unsupported`` for a format that pyiceberg cannot write, but accepts."""
        if version is not None and str(version) not in ("1", "2"):
            raise Unsupported(f"tables of format version {version} cannot be written here")

    def check_places(self, properties: Mapping[str, str]) -> None:
        """Raises ``Forbidden`` for a property that names a location outside the warehouse."""
        for name in _PLACES:
            if name in properties:
                self.check_location(properties[name])

    def check_location(self, location: str) -> str:
        """The location without a last slash. Raises ``Forbidden`` outside the warehouse."""
        plain = location.rstrip("/")
        if not is_below(plain, self.warehouse):
            raise Forbidden(f"location {location} is not below {self.warehouse}/")
        return plain

    def check_files(self, locations: Iterable[str], places: Collection[str]) -> None:
        """Raises ``Forbidden`` for a file that is in none of its table's locations."""
        for location in locations:
            if not any(is_below(location, place) for place in places):
                raise Forbidden(
                    f"file {location} is not the table's own; it must be below "
                    f"{' or '.join(sorted(places))}"
                )

    def default_location(self, name: TableName, namespace_properties: Mapping[str, str]) -> str:
        """The location of a table whose creator names none."""
        *levels, table = (_UNUSUAL.sub("_", part) for part in name)
        base = namespace_properties.get("location") or "/".join((self.warehouse, *levels))
        return self.check_location(f"{base.rstrip('/')}/{table}")


def is_below(location: str, place: str) -> bool:
    """Whether a location is inside a place, also if it is written with ``..``.

    >>> is_below("s3://b/t/data/f", "s3://b/t/"), is_below("s3://b/t/../u/f", "s3://b/t")
    (True, False)
    """
    base = place.rstrip("/") + "/"
    parts = location.removeprefix(base).split("/")
    return location.startswith(base) and not any(part in ("", ".", "..") for part in parts)


def metadata_places(location: str, properties: Mapping[str, str]) -> set[str]:
    """The locations of the manifests of a table with this location and these properties."""
    return {location, properties.get("write.metadata.path") or location}


def is_topic(properties: Mapping[str, str]) -> bool:
    """Whether a table with these properties is a topic's.

    >>> is_topic({"headwater.topic-id": "5f3a"}), is_topic({"owner": "me"})
    (True, False)
    """
    return any(name.startswith(_OURS) for name in properties)
