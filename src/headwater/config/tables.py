"""The sections of tables and of the pipeline that fills them."""

from typing import Annotated

from msgspec import Meta, Struct

import headwater.pipeline.settings
import headwater.tables.settings
from headwater.config.types import HostPort, Natural, Positive

_PIPELINE = headwater.pipeline.settings.PipelineSettings()
_TABLES = headwater.tables.settings.TableSettings()


class TableSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Topics as Iceberg tables: the catalog, names, and the history that is kept."""

    catalog: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="The catalog's type: `metadata`, in the cluster's metadata store, `sql` or "
            "`rest`; pyiceberg's others (`glue`, `hive`, ...) are passed through and not tested "
            "here. When not set, `sql` if there is a `catalog_uri` and `metadata` otherwise.",
        ),
    ] = _TABLES.catalog
    catalog_uri: Annotated[
        str | None,
        Meta(
            description="The catalog's address; for `sql`, a SQLite file in the data directory "
            "when not set. `metadata` takes none."
        ),
    ] = _TABLES.catalog_uri
    catalog_options: Annotated[
        str,
        Meta(description="More of pyiceberg's catalog properties, as NAME=VALUE, NAME=VALUE."),
    ] = _TABLES.catalog_options
    name: Annotated[
        str,
        Meta(
            min_length=1,
            description="A table's name; `<topic>` stands for the topic's, its dots as `_`.",
        ),
    ] = _TABLES.name
    keep_snapshots: Annotated[
        Positive,
        Meta(
            description="The newest snapshots that a table keeps, whatever their age, unless they "
            "keep deleted records."
        ),
    ] = _TABLES.keep_snapshots
    snapshot_age_ms: Annotated[
        Natural, Meta(description="How long a table keeps a snapshot for readers and time travel.")
    ] = _TABLES.snapshot_age_ms
    max_snapshots: Annotated[
        Positive,
        Meta(description="The most snapshots that a table keeps; a commit's cost grows with them."),
    ] = _TABLES.max_snapshots
    catalog_listen: Annotated[
        HostPort | None,
        Meta(
            description="Where the built-in Iceberg REST catalog is served, port + N for worker N; "
            "nowhere when not set."
        ),
    ] = _TABLES.catalog_listen
    catalog_vends_credentials: Annotated[
        bool,
        Meta(
            description="Hand the broker's own S3 credentials to every engine that loads a table."
        ),
    ] = _TABLES.catalog_vends_credentials


class PipelineSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The Spark pipeline that turns what topics hold into files of their tables."""

    master: Annotated[
        str,
        Meta(
            min_length=1, description="Spark's master, such as `local[*]` or `spark://HOST:PORT`."
        ),
    ] = _PIPELINE.master
    file_bytes: Annotated[
        int,
        Meta(
            ge=2**20,
            le=2**32,
            description="As many bytes of record batches become one file; 128 to 512 MiB is best.",
        ),
    ] = _PIPELINE.file_bytes
    max_age_ms: Annotated[
        Natural,
        Meta(description="`--follow` compacts what is older, though it makes a small file."),
    ] = _PIPELINE.max_age_ms
    max_entries: Annotated[
        Positive,
        Meta(description="`--follow` compacts so many small entries of a partition's index."),
    ] = _PIPELINE.max_entries
    interval_ms: Annotated[
        Positive, Meta(description="`--follow` looks at every partition so often.")
    ] = _PIPELINE.interval_ms
    claim_ms: Annotated[
        Annotated[int, Meta(ge=1000)],
        Meta(description="A job whose process was silent for so long is taken up by another."),
    ] = _PIPELINE.claim_ms
