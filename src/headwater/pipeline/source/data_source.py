"""The Spark data source ``headwater``: topics as DataFrames, read from object storage.

It does not use brokers. A query sees the records at the time of its planning. Spark 4.1 passes a
query's filters to a Python source, but not the columns that it uses. To read fewer columns, the
user gives a schema.
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
        # Spark refuses a reader with filters while filter pushdown is off, which is the default.
        # If it is on, Spark pushes filters in a process that has imported this module.
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
    """A ``pyspark.sql.types.StructType`` of all columns of a topic, or of some."""
    check_extras()
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    from headwater.pipeline.source.record_batches import COLUMNS

    whole = from_arrow_schema(COLUMNS)
    return whole if columns is None else StructType([whole[name] for name in columns])


def checked_columns(schema: Any) -> tuple[str, ...]:
    """The column names of a user's schema.

    Raises ``ConfigurationError`` if a column is unknown or has another type.
    """
    known = {field.name: field.dataType.simpleString() for field in schema_of()}
    for field in schema:
        kind = field.dataType.simpleString()
        if known.get(field.name) != kind:
            ours = ", ".join(f"{name} {kind}" for name, kind in known.items())
            raise ConfigurationError(f"there is no column {field.name} {kind}; a topic has {ours}")
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
        if partition is None:  # the plan was empty
            return iter(())
        reading = RangeReading(self._options, self._columns, self._wanted)
        return reading.batches(partition.value)


class FilteringReader(HeadwaterReader):
    """Skips ranges that a query's filters on partition, offset and timestamp exclude.

    Only used with the option ``pushFilters``, for a DataFrame that one query reads once. Spark 4.1
    reuses the ranges of the last query with pushed filters for all queries of the same DataFrame,
    even for the other side of a union with itself, and these would lack rows.
    """

    def pushFilters(self, filters: Any) -> Any:  # noqa: N802 - Spark's name
        self._wanted = narrow(self._wanted, filters)
        return filters
