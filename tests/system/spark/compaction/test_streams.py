"""What plans are made from, as the metadata store has it."""

from headwater.log.formats.metadata_values import TopicRecord
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Values, Writes
from headwater.meta.values import encode
from headwater.pipeline.metadata_reads import read_topics
from headwater.topic_config.stored import change_configs


async def test_topics_are_read_with_the_defaults_of_their_cluster() -> None:
    meta = MemoryStore()

    def create(_: Values) -> tuple[Writes, None]:
        writes = Writes()
        for name, configs in (("own", {"cleanup.policy": "delete"}), ("none", {})):
            writes.put(keys.topic(name), encode(TopicRecord(bytes(16), [], configs=configs)))
        return writes, None

    await meta.transact(0, [], create)
    assert [topic.configs for topic in await read_topics(meta, ["none"])] == [{}]
    cluster = {"log.cleanup.policy": "compact", "num.io.threads": "8"}
    await change_configs(meta, keys.broker_configs(None), lambda _: cluster)
    await change_configs(meta, keys.broker_configs(1), lambda _: {"log.retention.ms": "1"})
    assert {topic.name: topic.configs for topic in await read_topics(meta, [])} == {
        "own": {"cleanup.policy": "delete"},
        "none": {"cleanup.policy": "compact"},
    }
    await meta.close()
