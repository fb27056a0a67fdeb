"""Limits on the parts of a group whose size its clients choose.

Kafka stores a classic group in one record, and each member of a consumer group in one record. A
topic accepts records of up to 1 MB, and Kafka answers a group that does not fit with
UNKNOWN_SERVER_ERROR. Here every member has its own record in both kinds of groups, with the same
limit. A group may therefore be larger than in Kafka, up to ``GROUP_MAX_BYTES``. The limits are the
same on every metadata store: etcd and Oxia accept values of at most 1 MiB.
"""

from collections.abc import Iterable
from typing import Final

from headwater.errors import InvalidGroupId

RECORD_MAX_BYTES: Final = 1_000_000
"""Largest record that a request may cause: the client's data and a fixed overhead."""

VALUE_MAX_BYTES: Final = 1 << 20
"""Largest record of a group that is written. The difference to ``RECORD_MAX_BYTES`` allows for
sizes that are only estimated."""

GROUP_MAX_BYTES: Final = 8 << 20
"""Largest sum of the members' records of a group, without and with their assignments."""

GROUP_ID_MAX_BYTES: Final = 512
"""Group ids are quoted in keys, and PostgreSQL's index accepts keys of about 2,700 bytes."""

MAX_PENDING_IDS: Final = 10_000
"""Member ids that a classic group has assigned (error 79) and that have not joined yet."""

MAX_TOPICS: Final = 50_000
"""Topic names in the subscriptions of one group, which are processed on the event loop."""

MAX_PATTERN_CHARS: Final = 4_096
"""The longest pattern that a member may subscribe to."""

MAX_PATTERNS: Final = 100
"""Distinct patterns in one group; each may match every topic."""

MAX_EMBEDDED_ELEMENTS: Final = 100_000
"""Topics and partitions in one member's subscription or assignment."""

MAX_ASSIGNMENT_WORK: Final = 200_000
"""Partitions, and topics of members, that one assignment of a consumer group processes. It runs on
the event loop and takes about 1 µs for each."""

_ITEM_BYTES: Final = 5
_MEMBER_BYTES: Final = 200


def check_group_id(group: str) -> None:
    """Raises ``InvalidGroupId``."""
    if len(group) > GROUP_ID_MAX_BYTES or text_bytes(group) > GROUP_ID_MAX_BYTES:
        raise InvalidGroupId(
            f"a group id may have {GROUP_ID_MAX_BYTES} bytes; this one has {text_bytes(group)}"
        )


def text_bytes(text: str | None) -> int:
    """The bytes of a text in UTF-8."""
    if not text:
        return 0
    return len(text) if text.isascii() else len(text.encode())


def member_bytes(
    texts: Iterable[str | None],
    protocols: Iterable[tuple[str, bytes]] = (),
    topic_names: Iterable[str] = (),
) -> int:
    """An estimate of the bytes of a member's record that is never too small."""
    size = _MEMBER_BYTES
    for text in texts:
        size += text_bytes(text) + _ITEM_BYTES
    for name, metadata in protocols:
        size += text_bytes(name) + len(metadata) + 3 * _ITEM_BYTES
    for name in topic_names:
        size += text_bytes(name) + _ITEM_BYTES
    return size
