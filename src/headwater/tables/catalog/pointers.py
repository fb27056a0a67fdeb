"""The table catalog's keys in the metadata store, and the transactions that change them.

Each table has a key, the *pointer*, with the location of its current metadata file. Each namespace
has a key with its properties. Invariants:

- A commit replaces a pointer only if it has not changed since the commit's base was read.
- A namespace counts its direct tables and namespaces, in the transactions that add and remove
  them, so that only an empty one can be dropped.
- While the catalog has an older restore epoch than the cluster, every read and change raises
  ``CatalogOutdated``; ``recovery`` updates the catalog first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import msgspec
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)

from headwater.cluster_record import ClusterRecord
from headwater.errors import StoreUnavailable
from headwater.meta import keys
from headwater.meta.store import Decide, Entry, MetadataStore, Values, Writes, prefix_end
from headwater.meta.values import Value, decode, encode
from headwater.tables.names import TableName, dotted

T = TypeVar("T")

MAX_NAME_CHARACTERS: Final = 1024
"""Of a table's or namespace's full name."""
MAX_PROPERTY_BYTES: Final = 64 * 1024
"""Of all properties of a namespace."""

_MARKS: Final = (keys.CLUSTER, keys.CATALOG_EPOCH)


class CatalogOutdated(Exception):
    """Raised if the cluster was restored or upgraded since the last recovery of the catalog."""


class Pointer(Value):
    """The pointer of a table."""

    metadata: str
    """The location of its current metadata file."""


class Namespace(Value):
    """A namespace, and the number of tables and namespaces directly in it."""

    properties: dict[str, str] = msgspec.field(default_factory=dict)
    members: int = 0


class Epoch(Value):
    """The restore epoch of the last recovery."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Pointers:
    """The catalog in a metadata store.

    With ``recovering``, it can be used only until the recovery of that restore epoch is finished.
    """

    meta: MetadataStore
    recovering: int | None = None

    def for_recovery(self, epoch: int) -> "Pointers":
        return replace(self, recovering=epoch)

    async def epochs(self) -> tuple[int, int]:
        """The restore epochs of the cluster and of the catalog."""
        return _epochs({key: await self.meta.get(key) for key in _MARKS})

    async def finish_recovery(self) -> None:
        """Finish the recovery. Raises ``CatalogOutdated`` if another process did."""
        epoch = self.recovering
        assert epoch is not None

        def decide(_values: Values) -> tuple[Writes, None]:
            writes = Writes()
            writes.put(keys.CATALOG_EPOCH, encode(Epoch(epoch=epoch)))
            return writes, None

        await self._transact((), decide)

    async def table(self, name: TableName) -> str | None:
        """The location of a table's metadata; None if there is no table."""
        self._check(await self.epochs())
        entry = await self.meta.get(keys.catalog_table(_bounded(name)))
        return None if entry is None else decode(Pointer, entry.value).metadata

    async def tables(self, namespace: Sequence[str] | None = None) -> dict[TableName, str]:
        """The tables directly in a namespace, or all tables, with their metadata locations."""
        prefix = keys.CATALOG_TABLES if namespace is None else keys.catalog_tables(namespace)
        self._check(await self.epochs())
        found = await self.meta.scan(prefix, prefix_end(prefix))
        return {
            keys.catalog_name(entry.key): decode(Pointer, entry.value).metadata
            for entry in found.entries
        }

    async def namespace(self, levels: Sequence[str]) -> dict[str, str]:
        """A namespace's properties. Raises ``NoSuchNamespaceError``."""
        self._check(await self.epochs())
        key = keys.catalog_namespace(_bounded(levels))
        return _namespace({key: await self.meta.get(key)}, levels).properties

    async def namespaces(self, parent: Sequence[str]) -> list[tuple[str, ...]]:
        """The namespaces directly in ``parent``, or the top-level ones."""
        prefix = keys.catalog_namespace(parent) + "." if parent else keys.CATALOG_NAMESPACES
        self._check(await self.epochs())
        found = await self.meta.scan(prefix, prefix_end(prefix))
        names = [keys.catalog_name(entry.key) for entry in found.entries]
        return [name for name in names if len(name) == len(parent) + 1]

    async def add_table(self, name: TableName, metadata: str) -> None:
        """Raises ``NoSuchNamespaceError`` or ``TableAlreadyExistsError``."""
        key, parent = keys.catalog_table(_bounded(name)), keys.catalog_namespace(name[:-1])

        def decide(values: Values) -> tuple[Writes, None]:
            writes = Writes()
            if values[key] is not None:
                raise TableAlreadyExistsError(f"Table already exists: {dotted(name)}")
            _count(writes, values, name[:-1], 1)
            writes.put(key, encode(Pointer(metadata=metadata)))
            return writes, None

        await self._transact((key, parent), decide)

    async def move_pointer(self, name: TableName, old: str, new: str) -> None:
        """Replace a table's metadata.

        Raises ``NoSuchTableError``, or ``CommitFailedException`` if it is no longer ``old``.
        """
        key = keys.catalog_table(_bounded(name))

        def decide(values: Values) -> tuple[Writes, None]:
            writes, there = Writes(), _pointer(values[key])
            if there is None:
                raise NoSuchTableError(f"Table does not exist: {dotted(name)}")
            if there.metadata == new:
                return writes, None  # an earlier attempt succeeded
            if there.metadata != old:
                raise CommitFailedException(f"{dotted(name)} was changed by another commit")
            there.metadata = new
            writes.put(key, encode(there))
            return writes, None

        await self._transact((key,), decide)

    async def drop_table(self, name: TableName) -> None:
        """Raises ``NoSuchTableError``."""
        key, parent = keys.catalog_table(_bounded(name)), keys.catalog_namespace(name[:-1])

        def decide(values: Values) -> tuple[Writes, None]:
            writes = Writes()
            if values[key] is None:
                raise NoSuchTableError(f"Table does not exist: {dotted(name)}")
            _count(writes, values, name[:-1], -1)
            writes.delete(key)
            return writes, None

        await self._transact((key, parent), decide)

    async def rename_table(self, old: TableName, new: TableName) -> None:
        """Raises ``NoSuchTableError``, ``NoSuchNamespaceError`` or ``TableAlreadyExistsError``."""
        source, target = keys.catalog_table(_bounded(old)), keys.catalog_table(_bounded(new))
        parents = {keys.catalog_namespace(name[:-1]) for name in (old, new)}

        def decide(values: Values) -> tuple[Writes, None]:
            writes, there = Writes(), values[source]
            if there is None:
                raise NoSuchTableError(f"Table does not exist: {dotted(old)}")
            _namespace(values, new[:-1])
            if values[target] is not None:
                raise TableAlreadyExistsError(f"Table already exists: {dotted(new)}")
            if old[:-1] != new[:-1]:
                _count(writes, values, old[:-1], -1)
                _count(writes, values, new[:-1], 1)
            writes.delete(source)
            writes.put(target, there.value)
            return writes, None

        await self._transact((source, target, *parents), decide)

    async def add_namespace(self, levels: Sequence[str], properties: Mapping[str, str]) -> None:
        """Add a namespace and its missing parents.

        Raises ``NamespaceAlreadyExistsError``.
        """
        path = [tuple(levels[:depth]) for depth in range(1, len(_bounded(levels)) + 1)]
        stored = dict(_checked(properties))

        def decide(values: Values) -> tuple[Writes, None]:
            writes = Writes()
            known = [name for name in path if values[keys.catalog_namespace(name)] is not None]
            if len(known) == len(path):
                raise NamespaceAlreadyExistsError(f"Namespace already exists: {dotted(path[-1])}")
            if known:
                _count(writes, values, known[-1], 1)
            for name in path[len(known) :]:
                leaf = len(name) == len(levels)
                made = Namespace(properties=stored) if leaf else Namespace(members=1)
                writes.put(keys.catalog_namespace(name), encode(made))
            return writes, None

        await self._transact([keys.catalog_namespace(name) for name in path], decide)

    async def set_properties(
        self, levels: Sequence[str], old: Mapping[str, str], new: Mapping[str, str]
    ) -> None:
        """Raises ``CommitFailedException`` if the properties are no longer ``old``."""
        key = keys.catalog_namespace(_bounded(levels))
        stored = dict(_checked(new))

        def decide(values: Values) -> tuple[Writes, None]:
            writes, there = Writes(), _namespace(values, levels)
            if there.properties not in (old, stored):
                raise CommitFailedException(f"namespace {dotted(tuple(levels))} was changed")
            there.properties = stored
            writes.put(key, encode(there))
            return writes, None

        await self._transact((key,), decide)

    async def drop_namespace(self, levels: Sequence[str]) -> None:
        """Raises ``NoSuchNamespaceError`` or ``NamespaceNotEmptyError``."""
        key, above = keys.catalog_namespace(_bounded(levels)), tuple(levels[:-1])

        def decide(values: Values) -> tuple[Writes, None]:
            writes = Writes()
            if _namespace(values, levels).members:
                raise NamespaceNotEmptyError(f"Namespace is not empty: {dotted(tuple(levels))}")
            if above:
                _count(writes, values, above, -1)
            writes.delete(key)
            return writes, None

        parents = (keys.catalog_namespace(above),) if above else ()
        await self._transact((key, *parents), decide)

    async def _transact(self, wanted: Sequence[str], decide: Decide[T]) -> T:
        def decide_in_epoch(values: Values) -> tuple[Writes, T]:
            self._check(_epochs(values))
            return decide(values)

        return (await self.meta.transact(0, [*_MARKS, *wanted], decide_in_epoch)).result

    def _check(self, epochs: tuple[int, int]) -> None:
        cluster, catalog = epochs
        if self.recovering is None:
            usable = catalog == cluster
        else:
            usable = catalog != cluster == self.recovering
        if not usable:
            raise CatalogOutdated


def _epochs(values: Values) -> tuple[int, int]:
    stored, brought_up = values[keys.CLUSTER], values[keys.CATALOG_EPOCH]
    cluster = None if stored is None else decode(ClusterRecord, stored.value)
    if cluster is not None and cluster.restoring:
        raise StoreUnavailable("the cluster is being restored")
    return (
        0 if cluster is None else cluster.epoch,
        -1 if brought_up is None else decode(Epoch, brought_up.value).epoch,
    )


def _pointer(entry: Entry | None) -> Pointer | None:
    return None if entry is None else decode(Pointer, entry.value)


def _namespace(values: Values, levels: Sequence[str]) -> Namespace:
    entry = values[keys.catalog_namespace(levels)]
    if entry is None:
        raise NoSuchNamespaceError(f"Namespace does not exist: {dotted(tuple(levels))}")
    return decode(Namespace, entry.value)


def _count(writes: Writes, values: Values, levels: Sequence[str], change: int) -> None:
    there = _namespace(values, levels)
    there.members += change
    writes.put(keys.catalog_namespace(levels), encode(there))


def _bounded(name: Sequence[str]) -> Sequence[str]:
    """The name itself. Raises ``ValueError`` if it cannot be a key."""
    if not name or not all(name):
        raise ValueError(f"{dotted(tuple(name))!r} is not a name: a part of it is empty")
    if sum(map(len, name)) > MAX_NAME_CHARACTERS:
        raise ValueError(f"a name has more than {MAX_NAME_CHARACTERS} characters")
    return name


def _checked(properties: Mapping[str, str]) -> Mapping[str, str]:
    size = sum(len(name.encode()) + len(value.encode()) for name, value in properties.items())
    if size > MAX_PROPERTY_BYTES:
        raise ValueError(f"a namespace's properties have more than {MAX_PROPERTY_BYTES} bytes")
    return properties
