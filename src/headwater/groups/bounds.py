"""How large the parts of a group may be that its clients choose.

Kafka keeps a classic group in one record and a member of a consumer group in one record, and a
topic takes records of up to 1 MB; what does not fit is answered with UNKNOWN_SERVER_ERROR. Here
every member has a record of its own in every kind of group, with the same bound on each record.
So a group may be larger than in Kafka, up to ``GROUP_MAX_BYTES``. The bounds are the same on
every metadata store: etcd and Oxia take values of at most 1 MiB.
"""

from collections.abc import Iterable
from typing import Final

from headwater.errors import InvalidGroupId

RECORD_MAX_BYTES: Final = 1_000_000
"""The largest record that a request may ask for: what a client chose, and fixed overhead."""

VALUE_MAX_BYTES: Final = 1 << 20
"""No record of a group is written that is larger. What lies between the two bounds is room for
what nobody counts exactly."""

GROUP_MAX_BYTES: Final = 8 << 20
"""The members of one group together, before their assignments and with them."""

GROUP_ID_MAX_BYTES: Final = 512
"""Group ids are part of keys, quoted; PostgreSQL's index takes keys of about 2,700 bytes."""

MAX_PENDING_IDS: Final = 10_000
"""Member ids that a classic group has given out (79) and that nobody joined with yet."""

MAX_TOPICS: Final = 50_000
"""Topic names in the subscriptions of one group that are looked at on the event loop."""

MAX_PATTERN_CHARS: Final = 4_096
"""The longest pattern that a member may subscribe to."""

MAX_PATTERNS: Final = 100
"""Different patterns in one group; each may match every topic."""

MAX_EMBEDDED_ELEMENTS: Final = 100_000
"""Topics and partitions in one member's subscription or assignment that are looked at there."""

MAX_ASSIGNMENT_WORK: Final = 200_000
"""Partitions, and topics of members, that one assignment of a consumer group looks at. It is made
on the event loop, at about 1 us for each."""

_ITEM_BYTES: Final = 5
_MEMBER_BYTES: Final = 200


def check_group_id(group: str) -> None:
    """Raises ``InvalidGroupId``."""
    if len(group) > GROUP_ID_MAX_BYTES or text_bytes(group) > GROUP_ID_MAX_BYTES:
        raise InvalidGroupId(
            f"a group id may have {GROUP_ID_MAX_BYTES} bytes, this one has {text_bytes(group)}"
        )


def text_bytes(text: str | None) -> int:
    """The length of a text as it is stored."""
    if not text:
        return 0
    return len(text) if text.isascii() else len(text.encode())


def member_bytes(
    texts: Iterable[str | None],
    protocols: Iterable[tuple[str, bytes]] = (),
    topic_names: Iterable[str] = (),
) -> int:
    """About how many bytes a member's record has, never fewer than it has."""
    size = _MEMBER_BYTES
    for text in texts:
        size += text_bytes(text) + _ITEM_BYTES
    for name, metadata in protocols:
        size += text_bytes(name) + len(metadata) + 3 * _ITEM_BYTES
    for name in topic_names:
        size += text_bytes(name) + _ITEM_BYTES
    return size
