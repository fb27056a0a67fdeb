"""The names under which brokers write: taken in the cluster's own store, and never twice."""

import asyncio
from collections.abc import Callable

from headwater.errors import (
    KafkaStorageError,
    RequestTimedOut,
    StoreError,
    StoreUnavailable,
    UnknownOutcome,
)
from headwater.log.formats import Cluster, Incarnation
from headwater.log.levels import check_same_cluster
from headwater.log.transactions import PAUSES
from headwater.meta import keys
from headwater.meta.store import Decide, MetadataStore, Values, Writes
from headwater.meta.values import encode


async def take_name(
    meta: MetadataStore, cluster: Cluster, broker_id: int, new_name: Callable[[], str]
) -> str:
    """Make the key of an incarnation, and return its name.

    Every attempt has a name of its own: one that lands late, after its name was fenced, would
    bring it back. What it makes instead is nobody's, and is fenced as such.

    Raises ``ConfigurationError`` where the store is no longer ``cluster``'s, ``RequestTimedOut``
    where it stays silent, ``KafkaStorageError`` where it fails.
    """
    last: StoreError | None = None
    for pause in (*PAUSES, None):
        key = keys.incarnation(0, name := new_name())
        try:
            await meta.transact(0, [keys.CLUSTER, key], _put(key, cluster, broker_id))
        except (UnknownOutcome, StoreUnavailable) as error:
            last = error
        except StoreError as error:
            raise KafkaStorageError(str(error)) from error
        else:
            return name
        if pause is not None:
            await asyncio.sleep(pause)
    raise RequestTimedOut(f"the metadata store did not answer: {last}") from last


def _put(key: str, cluster: Cluster, broker_id: int) -> Decide[None]:
    def decide(values: Values) -> tuple[Writes, None]:
        check_same_cluster(values[keys.CLUSTER], cluster)
        return Writes(puts={key: encode(Incarnation(broker=broker_id))}), None

    return decide
