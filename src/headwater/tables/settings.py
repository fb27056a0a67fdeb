"""What an operator may set about tables."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """The catalog, the tables' names, and how much of their history is kept."""

    catalog: str | None = None
    """``metadata``, ``sql``, ``rest``, or another type that pyiceberg knows. None: ``sql`` if
    there is a ``catalog_uri``, otherwise ``metadata``, the cluster's metadata store."""
    catalog_uri: str | None = None
    """None: a SQLite file in the data directory, for ``sql`` only."""
    catalog_options: str = ""
    """More of pyiceberg's catalog properties, as ``name=value, name=value``."""
    name: str = "headwater.<topic>"
    """The template of a table's name."""
    keep_snapshots: int = 10
    """The newest snapshots that are kept whatever their age."""
    snapshot_age_ms: int = 600_000
    """How long a snapshot is kept."""
    max_snapshots: int = 50
    """More than these are not kept, whatever their age: a commit's cost grows with them."""
    catalog_listen: str | None = None
    """Where the built-in REST catalog is served, as ``HOST:PORT``."""
    catalog_vends_credentials: bool = False
    """Whether it hands the broker's own S3 credentials to engines."""
