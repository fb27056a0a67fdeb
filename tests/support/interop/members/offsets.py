"""What a group has committed, as kafka-python's admin client reads it.

confluent-kafka sends the zero byte at the end of its string as a part of the metadata, and needs it
when it reads: it shows metadata of other clients with the bytes that follow in memory.
"""

import time
from typing import Any

import kafka
import kafka.errors

from tests.support.interop.members.state import InteropOffset, place


def committed_offsets(bootstrap: str, group: str) -> dict[str, InteropOffset]:
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        offsets = _ask(admin, group)
    finally:
        admin.close()
    return {
        place(where.topic, where.partition): InteropOffset(each.offset, each.metadata.rstrip("\0"))
        for where, each in offsets.items()
    }


def _ask(admin: Any, group: str, *, seconds: float = 20.0) -> Any:
    """A coordinator that has just started may ask for a moment to read its groups."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return admin.list_group_offsets({group: None})[group]
        except kafka.errors.KafkaError as failed:
            if not failed.retriable or time.monotonic() > deadline:
                raise
        time.sleep(0.1)
