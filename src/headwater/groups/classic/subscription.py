"""Which topics consumers of the classic protocol read: the one thing that a coordinator looks
up in the metadata that members exchange through it.
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
"""The version and how many topics there are."""

# Version 0 is the beginning of every later one, so that newer clients' metadata can be read.
_read = guarded_reader(ConsumerProtocolSubscription, MAX_TOPICS)


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that these members name.

    None if one's metadata cannot be read, or if there are more than ``MAX_TOPICS``: every topic
    may be one that the group reads then.
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
