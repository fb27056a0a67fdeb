"""Where everything stands in the metadata store: one function per kind of key.

Numbers are padded so that keys sort as numbers do. A stream's keys carry its domain, so that
one transaction's keys share a prefix and a backend can place a domain on one shard.
"""

from uuid import UUID

CLUSTER = "cluster"
"""The cluster's id, format, feature level and restore epoch."""

BROKERS = "brokers/"
TOPICS = "topics/"
TOPIC_IDS = "topic-ids/"
DELETED_TOPICS = "deleted-topics/"
NEXT_STREAM = "next/stream"
NEXT_PRODUCER = "next/producer"

WIDTH = 20
LAST = 10**WIDTH - 1


def broker(broker_id: int) -> str:
    """A live broker's registration; ephemeral."""
    return f"{BROKERS}{broker_id:010d}"


def topic(name: str) -> str:
    return f"{TOPICS}{name}"


def topic_id(uuid: UUID) -> str:
    """A topic's name by its id."""
    return f"{TOPIC_IDS}{uuid}"


def deleted_topic(uuid: UUID) -> str:
    """A deleted topic whose streams are still being cleaned up."""
    return f"{DELETED_TOPICS}{uuid}"


def incarnations(domain: int) -> str:
    """The prefix that watchers of a domain follow: one change per commit."""
    return f"d/{domain:04d}/inc/"


def incarnation(domain: int, name: str) -> str:
    """The number and contents of an incarnation's last commit; deleting it fences."""
    return f"{incarnations(domain)}{name}"


def tail(domain: int, stream: int) -> str:
    return f"d/{domain:04d}/tail/{stream:020d}"


def layouts(domain: int) -> str:
    return f"d/{domain:04d}/layout/"


def layout(domain: int, stream: int) -> str:
    return f"{layouts(domain)}{stream:020d}"


def index(domain: int, stream: int) -> str:
    """The prefix of a stream's offset index."""
    return f"d/{domain:04d}/index/{stream:020d}/"


def index_entry(domain: int, stream: int, end_offset: int) -> str:
    """The entry of the range that ends before ``end_offset``."""
    return f"{index(domain, stream)}{end_offset:020d}"


def objects(domain: int) -> str:
    return f"d/{domain:04d}/object/"


def object_record(domain: int, object_key: str, part: int) -> str:
    """Which chunks of an object are live; large objects commit in numbered parts."""
    return f"{objects(domain)}{object_key}/{part:04d}"


def releases(domain: int) -> str:
    """Objects that lost their last reference, waiting for their grace time to pass."""
    return f"d/{domain:04d}/release/"
