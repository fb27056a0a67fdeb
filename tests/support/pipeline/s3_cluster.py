"""A broker whose objects are in a bucket, with Iceberg's own REST server as the catalog."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headwater.tables.settings import TableSettings
from peers.headwater import start_headwater
from peers.iceberg_rest import start_iceberg_rest
from peers.versitygw import start_versitygw
from tests.support.pipeline.cluster import ENVIRONMENT, PipelineCluster

BUCKET = "lake"


@contextmanager
def started_on_s3(folder: Path) -> Iterator[PipelineCluster]:
    """The three servers for as long as the block runs.

    Objects can be looked at in ``data/objects``, as if they were there.
    """
    with ExitStack() as stack:
        s3 = start_versitygw(folder / "s3")
        stack.callback(s3.stop)
        s3.create_bucket(BUCKET)
        rest = start_iceberg_rest(folder / "rest", warehouse=f"s3://{BUCKET}/tables", s3=s3)
        stack.callback(rest.stop)
        tables = TableSettings(catalog="rest", catalog_uri=rest.url)
        objects_url = s3.url(BUCKET, "prod")
        (folder / "data").mkdir()
        (folder / "data" / "objects").symlink_to(folder / "s3" / BUCKET / "prod")
        environment = {
            **ENVIRONMENT,
            **s3.client_environment(),
            **settings_of(tables, objects_url),
        }
        server = start_headwater(folder / "data", environment=environment)
        stack.callback(server.stop)
        yield PipelineCluster(server, folder / "data", tables, objects_url)


def settings_of(tables: TableSettings, objects_url: str) -> dict[str, str]:
    """The same for a command of ``headwater``, as variables."""
    return {
        "HEADWATER_OBJECTS": objects_url,
        "HEADWATER_TABLES_CATALOG": tables.catalog or "",
        "HEADWATER_TABLES_CATALOG_URI": tables.catalog_uri or "",
    }
