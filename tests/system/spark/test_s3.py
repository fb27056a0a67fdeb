"""The pipeline over a bucket, with Iceberg's own REST server as its catalog."""

from headwater.pipeline.sql import SqlStores, run_query, topic_names
from tests.support.pipeline.cluster import PipelineCluster
from tests.support.pipeline.readings.every_reading import check_every_reading
from tests.support.pipeline.readings.mixed_topic import fill
from tests.system.spark.conftest import SharedSpark
from tests.system.spark.source.test_equality import RECORDS

SHARE = RECORDS // 5


async def test_every_reading_is_the_same_on_s3_with_a_rest_catalog(
    s3_cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = await fill(s3_cluster, SHARE, spark)
    assert await check_every_reading(topic, spark, 2**20) >= SHARE


async def test_sql_reads_the_bucket(s3_cluster: PipelineCluster, spark: SharedSpark) -> None:
    topic = s3_cluster.create_topic()
    s3_cluster.produce(topic, 300)
    await s3_cluster.compact(topic, runner=spark)
    s3_cluster.produce(topic, 30, seed=1)
    place = SqlStores(s3_cluster.address.metadata_url, s3_cluster.address.objects_url)
    query = f"SELECT count(*) AS n, max(offset) AS last FROM `{topic}`"
    found = run_query(spark.session, query, place, topic_names(place))
    assert found.to_pylist() == [{"n": 330, "last": 329}]
