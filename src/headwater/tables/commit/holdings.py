"""The content of a table from its newest metadata file, without a catalog.

The catalog may be lost with the metadata store, or unavailable. The newest metadata file may belong
to a commit that did not land; the data files that it names are complete in that case, too.
"""

from collections.abc import Mapping

from headwater.tables.commit.live_files import every_live_file
from headwater.tables.commit.watermarks import watermarks
from headwater.tables.locations import object_key, object_location, storage_properties
from headwater.tables.topic_tables import CLUSTER, EPOCH, TOPIC_ID


def read_holdings(
    objects_url: str, metadata: str, *, cluster_id: str, topic_id: str, epoch: int
) -> tuple[frozenset[str], Mapping[int, int]] | None:
    """The keys of a table's files, and its watermarks, from the metadata file with this key.

    None if the table has another owner or restore epoch. Raises ``OSError``, or
    ``ValueError`` if the file is not a table's metadata.
    """
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(
        object_location(objects_url, metadata), storage_properties(objects_url)
    )
    found = table.properties
    owner = (found.get(CLUSTER), found.get(TOPIC_ID), int(found.get(EPOCH, "0")))
    if owner != (cluster_id, topic_id, epoch):
        return None
    files = [object_key(objects_url, location) for location in every_live_file(table)]
    return frozenset(key for key in files if key is not None), watermarks(found)
