"""Server-side assignors: pure functions from members and topics to who reads what.

They are Kafka's two. ``uniform`` balances over all topics and moves as little as it can;
``range`` gives each member a run of partitions of every topic, so that topics with equally many
partitions and the same members are co-partitioned.
"""

from headwater.groups.consumer.assignors.ranges import assign_ranges
from headwater.groups.consumer.assignors.spec import Assignor, Partitions, Subscriber
from headwater.groups.consumer.assignors.uniform import assign_uniformly

__all__ = ("ASSIGNORS", "DEFAULT_ASSIGNOR", "Assignor", "Partitions", "Subscriber")

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the names that clients give, in the order of preference."""

DEFAULT_ASSIGNOR = "uniform"
