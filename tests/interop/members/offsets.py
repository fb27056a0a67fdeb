"""What a group has committed, as kafka-python's admin client reads it.

confluent-kafka sends the zero byte at the end of its own string as a part of the metadata, and
relies on it when it reads: what others committed it shows with whatever stands behind it.
"""

import kafka

from tests.interop.members.state import Committed, place


def committed_offsets(bootstrap: str, group: str) -> dict[str, Committed]:
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        offsets = admin.list_group_offsets({group: None})[group]
    finally:
        admin.close()
    return {
        place(where.topic, where.partition): Committed(each.offset, each.metadata.rstrip("\0"))
        for where, each in offsets.items()
    }
