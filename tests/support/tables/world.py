"""A topic's table in a directory, with means to fill it and to read it back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from headwater.log.jobs.jobs import DataFile
from headwater.tables.catalog.catalogs import open_catalog
from headwater.tables.commit.watermarks import Append, Range
from headwater.tables.files.parquet import FileTarget, write_range
from headwater.tables.settings import TableSettings
from headwater.tables.topic_tables import TableOwner, TopicTable, ensure_table
from headwater.wire.batches.records import Record, encode_batch
from headwater.wire.columnar import decode

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

NAME = ("headwater", "orders")
SETTINGS = TableSettings()
OWNER = TableOwner(cluster_id="c1", topic="orders", topic_id="id-1", first_stream=100)


@dataclass(frozen=True)
class TablesWorld:
    """Everything under one directory; a stream's id is 100 and its partition."""

    directory: Path
    objects_url: str
    owner: TableOwner = OWNER
    settings: TableSettings = SETTINGS
    cluster: Path | None = None
    """The directory of the metadata store, if it is another."""
    opened: list["Catalog"] = field(default_factory=list, compare=False)
    """To be closed."""

    @classmethod
    def under(cls, directory: Path, **options: Any) -> "TablesWorld":
        return cls(directory, f"file://{directory}/objects", **options)

    @property
    def metadata_url(self) -> str:
        return f"sqlite:///{self.cluster or self.directory}/metadata.db"

    def catalog(self) -> "Catalog":
        """A connection of its own, as another process would have."""
        catalog = open_catalog(
            self.settings,
            data=self.directory,
            metadata_url=self.metadata_url,
            objects_url=self.objects_url,
        )
        self.opened.append(catalog)
        return catalog

    def close(self) -> None:
        """Close every catalog that was opened."""
        while self.opened:
            self.opened.pop().close()

    def target(self, *, create: bool = True) -> TopicTable:
        """The table in a catalog of its own."""
        catalog = self.catalog()
        target = TopicTable(
            catalog=catalog,
            name=NAME,
            owner=self.owner,
            objects_url=self.objects_url,
            random=Random(1),
            sleep=lambda _seconds: None,
        )
        if create:
            ensure_table(target, "partition")
        return target

    def write(
        self,
        partition: int,
        start: int,
        end: int,
        *,
        records: Sequence[Record] | None = None,
        attempt: str = "a",
        **options: Any,
    ) -> DataFile:
        """A file with a record for each offset of the range, or with these records."""
        if records is None:
            records = [record(partition, offset) for offset in range(start, end)]
        key = f"tables/{self.owner.topic_id}/data/{partition}/{start:020d}-{end:020d}-{attempt}"
        target = FileTarget(
            objects_url=self.objects_url,
            key=f"{key}.parquet",
            partition=partition,
            start=start,
            end=end,
            notes={"headwater.topic": self.owner.topic},
        )
        batches = [decode(encode_batch(records), partition)] if records else []
        return write_range(batches, target, **options)

    def append(
        self, partition: int, start: int, end: int, *, job: str | None = None, **options: Any
    ) -> Append:
        """One job with a file of one range."""
        holes: Sequence[Range] = options.pop("holes", ())
        file = self.write(partition, start, end, attempt=job or "a", **options)
        return Append(
            job=job or f"j{partition}-{start}-{end}",
            stream=100 + partition,
            start=start,
            end=end,
            files=[file],
            holes=holes,
        )

    def again(self, topic_id: str, first_stream: int) -> "TablesWorld":
        """The same place after the topic was deleted and created again."""
        owner = replace(self.owner, topic_id=topic_id, first_stream=first_stream)
        return replace(self, owner=owner)


def record(partition: int, offset: int) -> Record:
    return Record(offset, 1_700_000_000_000 + offset, b"k%d" % partition, b"v%d" % offset)


def rows(target: TopicTable, columns: Iterable[str] = ("partition", "offset")) -> list[Any]:
    """What a reader of the table sees, sorted."""
    found = target.catalog.load_table(target.name).scan(selected_fields=tuple(columns)).to_arrow()
    return sorted(zip(*(found.column(name).to_pylist() for name in columns), strict=True))


def span(partition: int, start: int, end: int) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(start, end)]
