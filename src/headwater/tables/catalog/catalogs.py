"""Opening the Iceberg catalog that the settings name.

The default is the cluster's own catalog in its metadata store. The types ``sql`` (SQLite) and
``rest`` are tested, too. Other types of pyiceberg are passed through with their options.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from headwater.errors import CatalogUnavailable, ConfigurationError, StoreUnavailable
from headwater.extras import require_extra
from headwater.meta.store_thread import StoreThread
from headwater.meta.urls import is_embedded, without_password
from headwater.tables.locations import object_location, storage_properties
from headwater.tables.names import check_template
from headwater.tables.settings import TableSettings

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG_NAME: Final = "headwater"
"""The catalog's name. A SQL catalog stores it in each row, so engines must use the same name."""

METADATA: Final = "metadata"
"""The type of the cluster's own catalog."""

_OPENING_ATTEMPTS = 5


def open_catalog(
    settings: TableSettings, *, data: Path, metadata_url: str, objects_url: str
) -> "Catalog":
    """Open the catalog. Its tables are in the object store of the brokers.

    The caller closes it. Raises ``ConfigurationError`` for invalid settings, or
    ``CatalogUnavailable`` if the catalog does not answer.
    """
    require_extra("table", "a table catalog")
    from pyiceberg.catalog import load_catalog

    from headwater.tables.catalog.errors import catalog_errors

    check_template(settings.name)
    kind = catalog_type(settings)
    properties = catalog_properties(
        settings, data=data, metadata_url=metadata_url, objects_url=objects_url
    )
    with catalog_errors(f"opening the {kind} catalog"):
        try:
            if kind == METADATA:
                return _open_own(settings, properties, data, metadata_url, objects_url)
            if kind == "sql":
                return _open_sql(properties)
            return load_catalog(CATALOG_NAME, **properties)
        except (ImportError, ValueError) as error:
            raise ConfigurationError(f"cannot use a catalog of type {kind!r}: {error}") from error


def catalog_type(settings: TableSettings) -> str:
    """The effective type: with an address and no type it is ``sql``."""
    return settings.catalog or (METADATA if settings.catalog_uri is None else "sql")


def catalog_properties(
    settings: TableSettings, *, data: Path, metadata_url: str, objects_url: str
) -> dict[str, str]:
    """Properties for ``pyiceberg.catalog.load_catalog``. Raises ``ConfigurationError``."""
    kind, uri = catalog_type(settings), settings.catalog_uri
    if uri is None and kind == "sql":
        uri = f"sqlite:///{data.absolute() / 'catalog.db'}"
    if uri is None and kind == "rest":
        raise ConfigurationError("tables.catalog_uri is not set; a rest catalog needs its address")
    if uri is not None and kind == METADATA:
        raise ConfigurationError(
            f"tables.catalog_uri is {without_password(uri)}, and a catalog of type {METADATA} has "
            "no address of its own; unset one of the two"
        )
    if kind == METADATA and metadata_url.startswith("memory:"):
        raise ConfigurationError(
            f"tables need metadata that other processes can reach, not {metadata_url}"
        )
    properties = {
        "type": kind,
        **({"uri": uri} if uri is not None else {}),
        "warehouse": object_location(objects_url, "tables"),
        **storage_properties(objects_url),
        **parse_options(settings.catalog_options),
    }
    if not is_embedded(metadata_url) and (local := _local_catalog(properties)) is not None:
        raise ConfigurationError(
            f"the table catalog {local}, and the cluster's metadata in "
            f"{without_password(metadata_url)} is not: "
            "unset tables.catalog and tables.catalog_uri to keep the tables there too"
        )
    return properties


def _local_catalog(properties: Mapping[str, str]) -> str | None:
    """Why other hosts cannot reach a catalog; None if they can."""
    uri = properties.get("uri", "")
    if properties["type"] == "in-memory":
        return "is in the memory of this process"
    # The scheme may name a driver: sqlite+pysqlite:///catalog.db
    if urlsplit(uri).scheme.partition("+")[0] == "sqlite":
        return f"{uri} is a file of this host"
    return None


def parse_options(text: str) -> dict[str, str]:
    """``NAME=VALUE, NAME=VALUE``. Raises ``ConfigurationError``.

    >>> parse_options("credential=id:secret, warehouse=prod")
    {'credential': 'id:secret', 'warehouse': 'prod'}
    """
    options = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError(
                f"tables.catalog_options has {item!r}; expected NAME=VALUE, NAME=VALUE"
            )
        options[name.strip()] = value.strip()
    return options


def _open_own(
    settings: TableSettings,
    properties: dict[str, str],
    data: Path,
    metadata_url: str,
    objects_url: str,
) -> "Catalog":
    from headwater.tables.catalog.catalog_file import FILE_NAME, take_over
    from headwater.tables.catalog.metadata_catalog import MetadataCatalog
    from headwater.tables.catalog.recovery import recover

    try:
        store = StoreThread(metadata_url)
    except StoreUnavailable as error:
        raise CatalogUnavailable(f"the metadata store: {error}") from error
    catalog = MetadataCatalog(
        CATALOG_NAME,
        store,
        partial(recover, template=settings.name, objects_url=objects_url),
        **properties,
    )
    below = None if is_embedded(metadata_url) else object_location(objects_url, "")
    try:
        take_over(data / FILE_NAME, catalog, below=below)
    except BaseException:
        catalog.close()
        raise
    return catalog


def _open_sql(properties: dict[str, str]) -> "Catalog":
    import sqlalchemy.exc
    from pyiceberg.catalog.sql import SqlCatalog

    if properties["uri"].startswith("sqlite:///"):
        Path(properties["uri"].removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(_OPENING_ATTEMPTS):
        try:
            return SqlCatalog(CATALOG_NAME, **properties)
        except sqlalchemy.exc.DBAPIError as error:
            # Another process is creating the catalog's tables.
            if "already exists" not in str(error) or attempt == _OPENING_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")
