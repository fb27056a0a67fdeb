"""Reads the topics that consumers subscribe to from the metadata of the classic protocol.

The coordinator needs nothing else of the metadata that members exchange through it.
"""

import struct
from collections.abc import Iterable

from kio.schema.consumer_protocol_subscription.v0 import ConsumerProtocolSubscription

from headwater.errors import MalformedRequest
from headwater.groups.bounds import MAX_TOPICS
from headwater.wire.messages.guarded_reader import guarded_reader

CONSUMER = "consumer"
"""The protocol type of consumers."""

_VERSION = struct.Struct(">h")
_HEAD = struct.Struct(">hi")
"""The version and the number of topics."""

# Every later version begins with the fields of version 0.
_read = guarded_reader(ConsumerProtocolSubscription, MAX_TOPICS)


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics that the members subscribe to.

    None if the metadata of one member is malformed or there are more than ``MAX_TOPICS``: the
    group may then read any topic.
    """
    topics: set[str] = set()
    claimed = 0
    for data in metadata:
        try:
            version, count = _HEAD.unpack_from(data)
            claimed += count
            if claimed > MAX_TOPICS:
                return None
            subscription = _read(data, _VERSION.size)
        except (MalformedRequest, struct.error):
            return None
        if version < 0:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
