"""Batches that must be opened before they are stored; runs in an executor, never on the loop."""

from headwater.broker.topic_rules import TopicRules
from headwater.wire.batch import Batch


def recode(batch: Batch, rules: TopicRules) -> Batch:
    """The batch as its topic wants it: every record with a key, and in the topic's codec."""
    return batch
