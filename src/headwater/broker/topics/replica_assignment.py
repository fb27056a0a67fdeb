"""Checks manual replica assignments like Kafka. They have no effect: any broker serves any
partition.
"""

from collections.abc import Sequence

from headwater.broker.cluster.view import ClusterView
from headwater.errors import InvalidReplicaAssignment


def check_brokers(cluster: ClusterView, broker_ids: Sequence[int], factor: int | None) -> int:
    """Check the replicas of one partition and return their number.

    ``factor`` is the number of replicas of the partitions before it. Raises
    ``InvalidReplicaAssignment``.
    """
    if not broker_ids:
        raise InvalidReplicaAssignment(
            "The manual partition assignment includes an empty replica list."
        )
    live = {broker.id for broker in cluster.brokers()}
    for broker_id in broker_ids:
        if broker_id not in live:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {broker_id}, but no such "
                "broker is registered."
            )
    if len(set(broker_ids)) != len(broker_ids):
        raise InvalidReplicaAssignment(
            "The manual partition assignment includes a broker more than once."
        )
    if factor is not None and factor != len(broker_ids):
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes a partition with {len(broker_ids)} "
            f"replica(s), but this is not consistent with previous partitions, which have "
            f"{factor} replica(s)."
        )
    return len(broker_ids)
