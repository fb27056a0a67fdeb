"""Reading a cluster's topics through the data source."""

from typing import Any

from headwater.meta import keys
from headwater.meta.store import prefix_end
from headwater.pipeline.source.data_source import HeadwaterDataSource
from tests.support.pipeline.cluster import PipelineCluster, Row
from tests.system.spark.conftest import SharedSpark


def place_options(cluster: PipelineCluster) -> dict[str, str]:
    return {"metadata": cluster.address.metadata_url, "objects": cluster.address.objects_url}


def reader(spark: SharedSpark, cluster: PipelineCluster, **options: str) -> Any:
    spark.session.dataSource.register(HeadwaterDataSource)
    spark.session.conf.set("spark.sql.session.timeZone", "UTC")
    spark.session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return spark.session.read.format("headwater").options(**place_options(cluster), **options)


def rows(frame: Any) -> list[Row]:
    """A frame's records by partition and offset."""
    found = [
        Row(
            each["partition"],
            each["offset"],
            round(each["timestamp"].timestamp() * 1000),
            each["key"],
            each["value"],
            tuple((header["key"], header["value"]) for header in each["headers"]),
        )
        for each in frame.toArrow().to_pylist()
    ]
    return sorted(found, key=lambda row: row[:2])


async def pins(cluster: PipelineCluster, topic: str) -> list[str]:
    """The pins of Spark's readers on a topic."""
    async with cluster.open() as place:
        from headwater.pipeline.metadata_reads import read_topics

        (found,) = await read_topics(place.meta, [topic])
        prefixes = [keys.pins_of_stream(0, stream) for stream in found.streams]
        scans = [await place.meta.scan(prefix, prefix_end(prefix)) for prefix in prefixes]
        return [each.key for scan in scans for each in scan.entries if "spark-" in each.key]
