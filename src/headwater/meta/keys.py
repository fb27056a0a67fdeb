"""The keys of the metadata store: one function per kind of key.

Numbers are padded with zeros, so that keys sort by number. The keys of a stream begin with its
domain, so that a backend can keep a domain on one shard.
"""

from collections.abc import Sequence
from urllib.parse import quote, unquote
from uuid import UUID

CLUSTER = "cluster"
"""The cluster's record: its id, format, feature level and restore epoch."""

BROKERS = "brokers/"
TOPICS = "topics/"
TOPIC_IDS = "topic-ids/"
DELETED_TOPICS = "deleted-topics/"
COORDINATORS = "coordinators/"
"""The leases of the shards of groups; ephemeral."""
BROKER_CONFIGS = "configs/brokers/"
"""Dynamic configs of brokers: for all brokers under ``default``, for one under its id."""
GROUP_CONFIGS = "configs/groups/"
QUOTAS = "quotas/"
NEXT_STREAM = "next/stream"
NEXT_PRODUCER = "next/producer"
NEXT_BROKER_EPOCH = "next/broker-epoch"
"""Compared and set by every registration: a transaction that reads it sees every registration."""
BOOKMARK = "next/bookmark"
"""Number of bookmarks of this store that are in the object store (``log.bookmarks``)."""
DRAINS = "drains/"
CATALOG_NAMESPACES = "catalog/namespaces/"
CATALOG_TABLES = "catalog/tables/"
CATALOG_EPOCH = "catalog/epoch"
"""The restore epoch for which the table catalog was last repaired."""
SNAPSHOTS = "snapshots"
"""The list of this store's snapshots in the object store."""

WIDTH = 20
LAST = 10**WIDTH - 1


def broker(broker_id: int) -> str:
    """A live broker's registration; ephemeral."""
    return f"{BROKERS}{broker_id:010d}"


def drain(broker_id: int) -> str:
    """A request to drain a broker."""
    return f"{DRAINS}{broker_id:010d}"


def topic(name: str) -> str:
    return f"{TOPICS}{name}"


def topic_id(uuid: UUID) -> str:
    """A topic's name by its id."""
    return f"{TOPIC_IDS}{uuid}"


def deleted_topic(uuid: UUID) -> str:
    """A deleted topic whose streams are still being deleted."""
    return f"{DELETED_TOPICS}{uuid}"


def incarnations(domain: int) -> str:
    """The prefix that watchers of a domain follow: one change per commit."""
    return f"d/{domain:04d}/inc/"


def incarnation(domain: int, name: str) -> str:
    """The number and contents of an incarnation's last commit; deleting it fences."""
    return f"{incarnations(domain)}{name}"


def fenced(domain: int, name: str = "") -> str:
    """A fenced incarnation that may have left objects; without a name, the prefix of all."""
    return f"d/{domain:04d}/fenced/{name}"


def tails(domain: int) -> str:
    return f"d/{domain:04d}/tail/"


def tail(domain: int, stream: int) -> str:
    return f"{tails(domain)}{stream:020d}"


def layouts(domain: int) -> str:
    return f"d/{domain:04d}/layout/"


def layout(domain: int, stream: int) -> str:
    return f"{layouts(domain)}{stream:020d}"


def indexes(domain: int) -> str:
    return f"d/{domain:04d}/index/"


def index(domain: int, stream: int) -> str:
    """The prefix of a stream's offset index."""
    return f"{indexes(domain)}{stream:020d}/"


def index_entry(domain: int, stream: int, end_offset: int) -> str:
    """The index entry of the range that ends before ``end_offset``."""
    return f"{index(domain, stream)}{end_offset:020d}"


def objects(domain: int) -> str:
    return f"d/{domain:04d}/object/"


def object_record(domain: int, object_key: str, part: int) -> str:
    """The live chunks of an object; a large object is committed in numbered parts."""
    return f"{objects(domain)}{object_key}/{part:04d}"


def releases(domain: int) -> str:
    """The prefix of objects without references that wait for their grace period to end."""
    return f"d/{domain:04d}/release/"


def table_releases(domain: int) -> str:
    """The prefix of table files that the log has released, while their table still names them."""
    return f"d/{domain:04d}/table-release/"


def jobs(domain: int) -> str:
    return f"d/{domain:04d}/job/"


def job(domain: int, stream: int) -> str:
    """The stream's one open job of the pipeline."""
    return f"{jobs(domain)}{stream:020d}"


def pins(domain: int) -> str:
    return f"d/{domain:04d}/pin/"


def pins_of_stream(domain: int, stream: int) -> str:
    return f"{pins(domain)}{stream:020d}/"


def pin(domain: int, stream: int, reader: str) -> str:
    """The offsets of a stream that a reader outside the brokers keeps from being reclaimed."""
    return f"{pins_of_stream(domain, stream)}{quote(reader, safe='')}"


def group_records(shard: int) -> str:
    """The prefix of the records of a shard's groups; offsets are under ``group_offsets``."""
    return f"g/{shard:04d}/r/"


def records_of_group(shard: int, group: str) -> str:
    """The prefix of one group's records; the group's name is quoted."""
    return f"{group_records(shard)}{quote(group, safe='')}/"


def group_offsets(shard: int) -> str:
    """The prefix of the offsets that the groups of a shard committed."""
    return f"g/{shard:04d}/o/"


def offsets_of_group(shard: int, group: str) -> str:
    """The prefix of one group's offsets."""
    return f"{group_offsets(shard)}{quote(group, safe='')}/"


def offsets_of_topic(group_prefix: str, topic: str) -> str:
    """The prefix of the offsets of one topic, below ``offsets_of_group``."""
    return f"{group_prefix}{quote(topic, safe='')}/"


def committed_offset(group_prefix: str, topic: str, partition: int) -> str:
    """One partition's offset, below ``offsets_of_group``."""
    return f"{group_prefix}{quote(topic, safe='')}/{partition:010d}"


def broker_configs(broker_id: int | None) -> str:
    """A broker's dynamic configs; with None, the configs that apply to all brokers."""
    return f"{BROKER_CONFIGS}{'default' if broker_id is None else f'{broker_id:010d}'}"


def group_configs(group: str) -> str:
    return f"{GROUP_CONFIGS}{quote(group, safe='')}"


def quota(entity: str) -> str:
    """An entity's quotas; the caller has quoted ``entity``."""
    return f"{QUOTAS}{entity}"


def catalog_namespace(levels: Sequence[str]) -> str:
    """A namespace of the table catalog.

    >>> catalog_namespace(("lake", "raw.eu"))
    'catalog/namespaces/lake.raw%2Eeu'
    """
    return CATALOG_NAMESPACES + _dotted(levels)


def catalog_tables(levels: Sequence[str]) -> str:
    """The prefix of the tables directly in a namespace."""
    return f"{CATALOG_TABLES}{_dotted(levels)}/"


def catalog_table(name: Sequence[str]) -> str:
    """The location of a table's metadata; ``name`` is the levels of its namespace and its name."""
    return catalog_tables(name[:-1]) + _dotted(name[-1:])


def catalog_name(key: str) -> tuple[str, ...]:
    """The name that ``catalog_namespace`` or ``catalog_table`` was called with.

    >>> catalog_name(catalog_table(("lake", "raw.eu", "orders")))
    ('lake', 'raw.eu', 'orders')
    """
    levels, _, table = key.partition("/")[2].partition("/")[2].partition("/")
    parts = levels.split(".")
    return tuple(unquote(part) for part in ([*parts, table] if table else parts))


def _dotted(levels: Sequence[str]) -> str:
    return ".".join(quote(level, safe="").replace(".", "%2E") for level in levels)
