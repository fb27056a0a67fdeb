"""Committing the files of jobs to tables, and other changes of topics' tables."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from headwater.log.jobs.jobs import Job
from headwater.pipeline.compaction.planner import BOTH
from headwater.pipeline.metadata_reads import StoredTopic
from headwater.tables.catalog.catalogs import open_catalog
from headwater.tables.names import TableName, table_name
from headwater.tables.settings import TableSettings
from headwater.topic_config import topic as topic_configs

if TYPE_CHECKING:
    from headwater.tables.commit.changes import CommitOutcome, Settled, Settlement
    from headwater.tables.commit.watermarks import Range
    from headwater.tables.topic_tables import TopicTable


class TableCommits:
    """The tables of one cluster. Methods block; any thread may call them."""

    def __init__(
        self,
        settings: TableSettings,
        *,
        data: Path,
        metadata_url: str,
        objects_url: str,
        cluster_id: str,
        epoch: int = 0,
    ) -> None:
        self._settings = settings
        self._data = data
        self._metadata_url = metadata_url
        self._objects_url = objects_url
        self._cluster_id = cluster_id
        self.epoch = epoch
        self._catalog: Any = None
        self._opening = Lock()

    def close(self) -> None:
        """Close the catalog, if it was opened."""
        if self._catalog is not None:
            self._catalog.close()

    def append(
        self, topic: StoredTopic, jobs: Sequence[Job], holes: "Mapping[str, Sequence[Range]]"
    ) -> "CommitOutcome":
        """Append the files of one topic's jobs, each exactly once. Creates a missing table.

        ``holes`` are, for each job, the ranges below it that the table will never contain. Raises
        ``CatalogUnavailable``, ``StorageFull`` or ``TableMismatch``.
        """
        from headwater.tables.commit.changes import append_files
        from headwater.tables.commit.watermarks import Append
        from headwater.tables.topic_tables import ensure_table

        table = self.table(topic)
        ensure_table(table, topic_configs.table_partitioning(topic.configs))
        appends = [
            Append(
                job=job.id,
                stream=job.stream,
                start=job.start,
                end=job.end,
                files=[
                    file for file in (job.copies if job.kind == BOTH else job.files) if file.rows
                ],
                holes=holes[job.id],
            )
            for job in jobs
        ]
        return append_files(table, appends)

    def partitioning(self, topic: StoredTopic) -> str:
        """The partitioning of a topic's table; as configured if the table does not exist."""
        from headwater.tables.topic_tables import PARTITION_BY, load_table

        wanted, table = topic_configs.table_partitioning(topic.configs), self.table(topic)
        return load_table(table).properties.get(PARTITION_BY, wanted) if table.exists else wanted

    def rewrite(
        self, topic: StoredTopic, jobs: Sequence[Job], may_be_gone: Collection[str]
    ) -> "CommitOutcome":
        """Replace the input files of one topic's jobs by their files. Raises as ``append``."""
        from headwater.tables.commit.changes import Rewrite, rewrite_files

        rewrites = [
            Rewrite(
                job=job.id,
                inputs=job.inputs,
                files=[file for file in job.files if file.rows],
                may_be_gone=may_be_gone,
            )
            for job in jobs
        ]
        return rewrite_files(self.table(topic), rewrites)

    def missing(self, topic: StoredTopic, keys: Collection[str]) -> list[str] | None:
        """The files that a topic's table lacks; None if the table needs no settlement.

        Creates a missing table if the log has files, because the job that wrote them may have died
        before it created the table. Raises as ``append``.
        """
        from headwater.tables.commit.changes import has_table, is_settled, missing_files
        from headwater.tables.topic_tables import ensure_table

        table = self.table(topic)
        if not has_table(table):
            if not keys:
                return None
            # With the previous epoch, so that it refuses commits until it is settled.
            earlier = replace(table, owner=replace(table.owner, epoch=self.epoch - 1))
            ensure_table(earlier, topic_configs.table_partitioning(topic.configs))
        return None if is_settled(table) else missing_files(table, keys)

    def settle(self, topic: StoredTopic, settlement: "Settlement") -> "Settled":
        """Set a table to the content of the log after a restore. Raises as ``append``."""
        from headwater.tables.commit.changes import settle_files

        return settle_files(self.table(topic), settlement)

    def expire(self, topic: StoredTopic, now_ms: int) -> int:
        """Expire table snapshots; returns their number."""
        from headwater.tables.maintenance import expire_snapshots

        return len(expire_snapshots(self.table(topic), self._settings, now_ms=now_ms).expired)

    def remove(self, topic: StoredTopic, files: Sequence[str], now_ms: int) -> frozenset[str]:
        """Remove files from a table; returns the files that no kept snapshot refers to."""
        from headwater.tables.commit.changes import remove_files
        from headwater.tables.commit.live_files import unreferenced
        from headwater.tables.maintenance import expire_snapshots
        from headwater.tables.topic_tables import load_table

        table = self.table(topic)
        remove_files(table, files)
        # A snapshot that still contains deleted records expires by age even if it is recent.
        settings = replace(self._settings, keep_snapshots=1)
        expire_snapshots(table, settings, now_ms=now_ms)
        return unreferenced(load_table(table), files, objects_url=self._objects_url)

    def drop(self, topic_id: str) -> bool:
        """Drop the table of a deleted topic from the catalog; False if there is none.

        The table is found by its properties, because it may have been renamed.
        """
        from headwater.tables.catalog.errors import catalog_errors
        from headwater.tables.topic_tables import CLUSTER, TOPIC_ID

        wanted = (self._cluster_id, topic_id)
        with catalog_errors(f"the table of topic {topic_id}"):
            for name in self._every_name():
                found = self.catalog.load_table(name).properties
                if (found.get(CLUSTER), found.get(TOPIC_ID)) == wanted:
                    self.catalog.drop_table(name)
                    return True
        return False

    def files_of_deleted_topics(self, topic_ids: Collection[str]) -> dict[str, list[str]]:
        """By topic id: the files of the cluster's tables of topics not among ``topic_ids``."""
        from headwater.tables.catalog.errors import catalog_errors
        from headwater.tables.commit.live_files import every_kept_file
        from headwater.tables.locations import object_key
        from headwater.tables.topic_tables import CLUSTER, TOPIC_ID

        found: dict[str, list[str]] = {}
        with catalog_errors("looking for tables of deleted topics"):
            for name in self._every_name():
                table = self.catalog.load_table(name)
                topic_id = table.properties.get(TOPIC_ID)
                ours = table.properties.get(CLUSTER) == self._cluster_id
                if ours and topic_id is not None and topic_id not in topic_ids:
                    keys = [
                        object_key(self._objects_url, location)
                        for location in every_kept_file(table)
                    ]
                    found[topic_id] = [key for key in keys if key is not None]
        return found

    def _every_name(self) -> Iterator[TableName]:
        """All tables of the catalog, in nested namespaces, too."""
        namespaces = [*self.catalog.list_namespaces()]
        while namespaces:
            namespace = namespaces.pop()
            yield from self.catalog.list_tables(namespace)
            namespaces += self.catalog.list_namespaces(namespace)

    @property
    def catalog(self) -> Any:
        with self._opening:
            if self._catalog is None:
                self._catalog = open_catalog(
                    self._settings,
                    data=self._data,
                    metadata_url=self._metadata_url,
                    objects_url=self._objects_url,
                )
            return self._catalog

    def table(self, topic: StoredTopic) -> "TopicTable":
        """A topic's table, which need not exist."""
        from headwater.tables.topic_tables import TableOwner, TopicTable

        return TopicTable(
            catalog=self.catalog,
            name=table_name(self._settings.name, topic.name, topic.configs),
            owner=TableOwner(
                cluster_id=self._cluster_id,
                topic=topic.name,
                topic_id=topic.id,
                first_stream=topic.streams[0],
                epoch=self.epoch,
            ),
            objects_url=self._objects_url,
        )
