"""Committing the progress of a streaming query to a consumer group, so that tools show its lag.

The query's position is in its checkpoint. The group's offsets are only a copy, so a failure to
commit them is logged and does not stop the query.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 60.0
"""Pause after a failed commit."""
WARNINGS: Final = 4
"""The log level of librdkafka, which writes to the Spark driver's standard error."""


class ReportedGroup:
    """Commits the progress of a query to a consumer group without members."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._admin: Any = None
        self._not_before = 0.0

    def report(self, offsets: Mapping[str, Mapping[int, int]]) -> bool:
        """Commit the next offset of each partition, by topic; returns whether it succeeded.

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
                "Cannot commit the query's progress to its group",
                extra={"group": self._group, "error": error, "retry_in_s": PAUSE_SECONDS},
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
