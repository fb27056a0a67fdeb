"""Topics with their partitions, offsets and configurations, in a few requests for all."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from headwater.cli.client import REQUEST_TIMEOUT, describe


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    partition: int
    leader: int
    earliest: int
    latest: int

    @property
    def records(self) -> int:
        return self.latest - self.earliest


@dataclass(frozen=True, slots=True)
class TopicFacts:
    name: str
    id: str | None
    partitions: tuple[PartitionFacts, ...]
    configs: Mapping[str, str]

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions)

    def as_json(self) -> dict[str, object]:
        return {
            "topic": self.name,
            "id": self.id,
            "partitions": [asdict(each) | {"records": each.records} for each in self.partitions],
            "configs": dict(self.configs),
        }


def read_topics(admin: Any, names: Sequence[str], *, all_configs: bool) -> list[TopicFacts]:
    """The topics in the order of ``names``. Raises ``ClickException`` for an unknown one."""
    from confluent_kafka import TopicCollection, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    described = admin.describe_topics(TopicCollection(list(names)), request_timeout=REQUEST_TIMEOUT)
    topics = {name: _result(name, described[name]) for name in names}
    partitions = [
        TopicPartition(name, each.id) for name, topic in topics.items() for each in topic.partitions
    ]
    earliest, latest = (
        admin.list_offsets(dict.fromkeys(partitions, spec), request_timeout=REQUEST_TIMEOUT)
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    configs = _configs(admin, names, all_configs=all_configs)
    return [
        TopicFacts(
            name=name,
            id=_kafka_spelling(topic.topic_id),
            partitions=tuple(
                PartitionFacts(
                    partition=each.id,
                    leader=each.leader.id,
                    earliest=earliest[TopicPartition(name, each.id)].result().offset,
                    latest=latest[TopicPartition(name, each.id)].result().offset,
                )
                for each in sorted(topic.partitions, key=lambda each: int(each.id))
            ),
            configs=configs[name],
        )
        for name, topic in topics.items()
    ]


def _kafka_spelling(topic_id: Any) -> str | None:
    """An id as Kafka's tools print it, in URL-safe base64."""
    return str(topic_id).translate(str.maketrans("+/", "-_")) if topic_id else None


def _result(name: str, future: Any) -> Any:
    from confluent_kafka import KafkaException

    try:
        return future.result()
    except KafkaException as error:
        raise click.ClickException(f"{name}: {describe(error.args[0])}") from error


def _configs(admin: Any, names: Sequence[str], *, all_configs: bool) -> dict[str, dict[str, str]]:
    from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    futures = admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT)
    topic_source = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {
        resource.name: {
            entry.name: entry.value
            for entry in future.result().values()
            if all_configs or entry.source == topic_source
        }
        for resource, future in futures.items()
    }
