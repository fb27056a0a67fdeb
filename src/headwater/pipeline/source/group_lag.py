"""The lag of a streaming query, where ordinary tools look for it: in a consumer group.

The query's own position is in its checkpoint. A group's committed offsets only repeat it, so what
goes wrong with them is told and does not stop the query.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 60.0
"""A query is not held up by a broker that is away more often than this."""
WARNINGS: Final = 4
"""What librdkafka may write to a Spark driver's standard error: nothing below a warning."""


class ReportedGroup:
    """Commits what a query has read to a consumer group without members, through a broker."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._admin: Any = None
        self._not_before = 0.0

    def report(self, offsets: Mapping[str, Mapping[int, int]]) -> bool:
        """Commit the next offset of each partition, by topic; returns whether it was taken.

        Blocks for ``TIMEOUT_SECONDS`` at most.
        """
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

        if time.monotonic() < self._not_before:
            return False
        wanted = [
            TopicPartition(topic, partition, offset)
            for topic, by_partition in offsets.items()
            for partition, offset in by_partition.items()
        ]
        try:
            self._commit([ConsumerGroupTopicPartitions(self._group, wanted)])
        except (KafkaException, TimeoutError) as error:
            self._not_before = time.monotonic() + PAUSE_SECONDS
            logger.warning(
                "group %s does not show how far the query is: %s; tried again in %d s",
                *(self._group, error, PAUSE_SECONDS),
            )
            return False
        return True

    def _commit(self, wanted: Sequence[Any]) -> None:
        from confluent_kafka import KafkaException

        asked = self._client().alter_consumer_group_offsets(wanted, request_timeout=TIMEOUT_SECONDS)
        for answer in asked.values():
            for each in answer.result(TIMEOUT_SECONDS).topic_partitions:
                if each.error is not None:
                    raise KafkaException(each.error)

    def _client(self) -> Any:
        if self._admin is None:
            from confluent_kafka.admin import AdminClient

            self._admin = AdminClient(
                {
                    "bootstrap.servers": self._bootstrap,
                    "client.id": "headwater-spark",
                    "log_level": WARNINGS,
                }
            )
        return self._admin
