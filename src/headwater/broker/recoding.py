"""Batches that must be opened before they are stored; runs in an executor, never on the loop."""

from headwater.broker.admission import check_size
from headwater.broker.topic_rules import TopicRules
from headwater.errors import InvalidRecord
from headwater.wire.batch import Batch
from headwater.wire.records import decode_batch, recompress


def recode(batch: Batch, rules: TopicRules) -> Batch:
    """The batch as its topic wants it: every record with a key, and in the topic's codec.

    Raises the ``KafkaError`` that the client gets.
    """
    if rules.compacted:
        for index, record in enumerate(decode_batch(batch.data)):
            if record.key is None:
                raise InvalidRecord(f"record {index} has no key, which a compacted topic needs")
    if rules.codec is None or rules.codec == batch.codec:
        return batch
    recoded = recompress(batch, rules.codec)
    check_size(recoded, rules)
    return recoded
