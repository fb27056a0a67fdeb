"""The Iceberg catalog that the settings name.

``sql`` (SQLite by default, or PostgreSQL) and ``rest`` are tested; every other type that
pyiceberg knows is passed through with its options as they are.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.errors import ConfigurationError
from headwater.extras import require_extra
from headwater.tables.locations import object_location, storage_properties
from headwater.tables.names import check_template
from headwater.tables.settings import TableSettings

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG_NAME: Final = "headwater"
"""Rows of a SQL catalog carry their catalog's name: engines that share it use the same one."""

_OPENING_ATTEMPTS = 5


def open_catalog(settings: TableSettings, *, data: Path, objects_url: str) -> "Catalog":
    """A catalog whose tables live in the object store, reached as the broker reaches it.

    Raises ``ConfigurationError`` for wrong settings, ``CatalogUnavailable`` where it does not
    answer.
    """
    require_extra("table", "a table catalog")
    from pyiceberg.catalog import load_catalog

    from headwater.tables.catalog_errors import catalog_errors

    check_template(settings.name)
    properties = catalog_properties(settings, data=data, objects_url=objects_url)
    with catalog_errors(f"opening the {settings.catalog} catalog"):
        try:
            if settings.catalog == "sql":
                return _open_sql(properties)
            return load_catalog(CATALOG_NAME, **properties)
        except (ImportError, ValueError) as error:
            raise ConfigurationError(
                f"cannot use a catalog of type {settings.catalog!r}: {error}"
            ) from error


def catalog_properties(settings: TableSettings, *, data: Path, objects_url: str) -> dict[str, str]:
    """What ``pyiceberg.catalog.load_catalog`` takes."""
    uri = settings.catalog_uri
    if uri is None and settings.catalog == "sql":
        uri = f"sqlite:///{data.absolute() / 'catalog.db'}"
    if uri is None and settings.catalog == "rest":
        raise ConfigurationError("tables.catalog_uri is not set; a rest catalog needs its address")
    return {
        "type": settings.catalog,
        **({"uri": uri} if uri is not None else {}),
        "warehouse": object_location(objects_url, "tables"),
        **storage_properties(objects_url),
        **parse_options(settings.catalog_options),
    }


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


def _open_sql(properties: dict[str, str]) -> "Catalog":
    import sqlalchemy.exc
    from pyiceberg.catalog.sql import SqlCatalog

    if properties["uri"].startswith("sqlite:///"):
        Path(properties["uri"].removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(_OPENING_ATTEMPTS):
        try:
            return SqlCatalog(CATALOG_NAME, **properties)
        except sqlalchemy.exc.DBAPIError as error:
            # Another process creates the catalog's own tables at this moment.
            if "already exists" not in str(error) or attempt == _OPENING_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")
