"""The Spark data source ``headwater``: topics as DataFrames, read from object storage.

Brokers have no part in it. A query sees what the topics held when it was planned. Spark 4.1 tells
a Python source which filters a query has, not which columns it uses: a schema with fewer columns,
given by the user, is how a query reads less.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from headwater.errors import ConfigurationError
from headwater.pipeline.source.filters import ReadFilter, narrow
from headwater.pipeline.source.options import SourceOptions, parse_options
from headwater.pipeline.source.plan import plan_batch
from headwater.pipeline.source.read import RangeReading
from headwater.pipeline.source.spark_classes import (
    DataSource,
    DataSourceReader,
    InputPartition,
    check_extras,
)

_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class HeadwaterDataSource(DataSource):  # type: ignore[misc]
    """Register with ``spark.dataSource.register``; see the page "How to read topics in Spark"."""

    @classmethod
    def name(cls) -> str:
        return "headwater"

    def schema(self) -> Any:
        return schema_of()

    def reader(self, schema: Any) -> "HeadwaterReader":
        options = parse_options(self.options)
        columns = checked_columns(schema)
        # Spark refuses a reader that takes filters while their push-down is off, as it is by
        # default. It asks for filters in a process of another module, and only where it is on.
        asked = options.push_filters and _PUSHING in sys.modules
        return (FilteringReader if asked else HeadwaterReader)(options, columns)

    def writer(self, schema: Any, overwrite: bool) -> Any:  # noqa: FBT001 - Spark's signature
        """Raises ``ConfigurationError``."""
        raise ConfigurationError(
            "format headwater only reads topics: write records with a Kafka client"
        )

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        from headwater.pipeline.source.stream import HeadwaterStreamReader

        options = parse_options(self.options, streaming=True)
        return HeadwaterStreamReader(options, checked_columns(schema))


def schema_of(columns: Sequence[str] | None = None) -> Any:
    """A ``pyspark.sql.types.StructType`` of all columns that a topic has, or of some."""
    check_extras()
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    from headwater.pipeline.source.record_batches import COLUMNS

    whole = from_arrow_schema(COLUMNS)
    return whole if columns is None else StructType([whole[name] for name in columns])


def checked_columns(schema: Any) -> tuple[str, ...]:
    """The names of a schema's columns: all of ours, or those that a user wants to read.

    Raises ``ConfigurationError`` where it has others.
    """
    known = {field.name: field.dataType.simpleString() for field in schema_of()}
    for field in schema:
        kind = field.dataType.simpleString()
        if known.get(field.name) != kind:
            ours = ", ".join(f"{name} {kind}" for name, kind in known.items())
            raise ConfigurationError(f"no column {field.name} {kind}; a topic has {ours}")
    return tuple(field.name for field in schema)


class HeadwaterReader(DataSourceReader):  # type: ignore[misc]
    """Reads a snapshot of topics."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._wanted = ReadFilter()

    def partitions(self) -> list[Any]:
        return [InputPartition(part) for part in plan_batch(self._options, self._wanted)]

    def read(self, partition: Any) -> Iterator[Any]:
        if partition is None:  # there was nothing to plan
            return iter(())
        reading = RangeReading(self._options, self._columns, self._wanted)
        return reading.batches(partition.value)


class FilteringReader(HeadwaterReader):
    """Leaves out what a query's conditions on partition, offset and timestamp exclude.

    Only where the user asks for it, for a DataFrame that one query reads once: Spark 4.1 keeps
    the ranges of the last query that pushed filters for all others of the same DataFrame, even
    for the other side of a union with itself, and they would lack rows.
    """

    def pushFilters(self, filters: Any) -> Any:  # noqa: N802 - Spark's name
        self._wanted = narrow(self._wanted, filters)
        return filters
