"""The section `tables`."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from headwater.setting_types import HostPortText, Natural, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """Topics as Iceberg tables: the catalog, table names, and how many snapshots are kept."""

    catalog: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="The catalog's type: `metadata` (in the cluster's metadata store), `sql` "
            "or `rest`. pyiceberg's other types (`glue`, `hive`, ...) are passed through and not "
            "tested. When not set: `sql` if `catalog_uri` is set, otherwise `metadata`."
        ),
    ] = None
    catalog_uri: Annotated[
        str | None,
        Meta(
            description="The catalog's address. For `sql` the default is a SQLite file in the data "
            "directory. `metadata` takes none."
        ),
    ] = None
    catalog_options: Annotated[
        str,
        Meta(description="More catalog properties of pyiceberg, as NAME=VALUE, NAME=VALUE."),
    ] = ""
    name: Annotated[
        str,
        Meta(
            min_length=1,
            description="Template of table names. `<topic>` is replaced by the topic's name, with "
            "`_` for each dot.",
        ),
    ] = "headwater.<topic>"
    keep_snapshots: Annotated[
        Positive,
        Meta(
            description="The newest snapshots are kept whatever their age, except those that still "
            "contain deleted records."
        ),
    ] = 10
    snapshot_age_ms: Annotated[
        Natural,
        Meta(description="Time that a snapshot is kept for readers and time travel."),
    ] = 600_000
    max_snapshots: Annotated[
        Positive,
        Meta(description="Maximum snapshots of a table; the cost of a commit grows with them."),
    ] = 50
    catalog_listen: Annotated[
        HostPortText | None,
        Meta(
            description="Address of the built-in Iceberg REST catalog; port + N for worker N. "
            "Not served when not set."
        ),
    ] = None
    catalog_vends_credentials: Annotated[
        bool,
        Meta(
            description="Give the broker's own S3 credentials to every engine that loads a table."
        ),
    ] = False
