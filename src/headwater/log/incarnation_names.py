"""Takes the names under which brokers write; no name is taken twice."""

from collections.abc import Callable

from headwater.cluster_record import ClusterRecord, check_same_cluster
from headwater.log.formats.metadata_values import Incarnation
from headwater.meta import keys
from headwater.meta.store import Decide, MetadataStore, Values, Writes
from headwater.meta.transactions import retry_transaction
from headwater.meta.values import encode


async def take_name(
    meta: MetadataStore, cluster: ClusterRecord, broker_id: int, new_name: Callable[[], str]
) -> str:
    """Create the key of a new incarnation, and return its name.

    Each attempt has a different name, because an attempt that is applied late, after its name was
    fenced, would bring that name back. The key of a lost attempt belongs to no broker and is fenced
    like that of a dead one.

    Raises ``ConfigurationError`` if the store is no longer ``cluster``'s, ``RequestTimedOut`` if it
    does not answer, ``KafkaStorageError`` if it fails.
    """

    async def attempt() -> str:
        key = keys.incarnation(0, name := new_name())
        await meta.transact(0, [keys.CLUSTER, key], _put(key, cluster, broker_id))
        return name

    return await retry_transaction(attempt)


def _put(key: str, cluster: ClusterRecord, broker_id: int) -> Decide[None]:
    def decide(values: Values) -> tuple[Writes, None]:
        check_same_cluster(values[keys.CLUSTER], cluster)
        return Writes(puts={key: encode(Incarnation(broker=broker_id))}), None

    return decide
