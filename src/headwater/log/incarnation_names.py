"""The names under which brokers write: taken in the cluster's own store, and never twice."""

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
    """Make the key of an incarnation, and return its name.

    Every attempt has a name of its own: one that lands late, after its name was fenced, would
    bring it back. What it makes instead is nobody's, and is fenced as such.

    Raises ``ConfigurationError`` where the store is no longer ``cluster``'s, ``RequestTimedOut``
    where it stays silent, ``KafkaStorageError`` where it fails.
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
