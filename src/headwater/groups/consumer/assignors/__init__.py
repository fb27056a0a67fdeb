"""Server-side assignors: pure functions from members and topics to each member's partitions.

They are Kafka's two. ``uniform`` balances over all topics and moves few partitions. ``range`` gives
each member consecutive partitions of every topic, so that topics with the same number of partitions
and the same members are co-partitioned.

- ``spec``: the type of an assignor.
- ``uniform``: the assignor ``uniform``.
- ``overlapping``: ``uniform`` for members with different subscriptions.
- ``ranges``: the assignor ``range``.
"""

from headwater.groups.consumer.assignors.ranges import assign_ranges
from headwater.groups.consumer.assignors.spec import Assignor, Partitions, Subscriber
from headwater.groups.consumer.assignors.uniform import assign_uniformly

__all__ = ("ASSIGNORS", "DEFAULT_ASSIGNOR", "Assignor", "Partitions", "Subscriber")

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the names that clients use, in order of preference."""

DEFAULT_ASSIGNOR = "uniform"
