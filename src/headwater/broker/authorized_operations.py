"""What a client may do, as the bits that Kafka answers; without access control it is everything.

Bit n stands for operation n of Kafka's ``AclOperation``: 3 read, 4 write, 5 create, 6 delete,
7 alter, 8 describe, 9 cluster action, 10 describe configs, 11 alter configs, 12 idempotent write.
"""

from typing import Final

TOPIC_OPERATIONS: Final = sum(1 << n for n in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS: Final = sum(1 << n for n in (5, 7, 8, 9, 10, 11, 12))
GROUP_OPERATIONS: Final = sum(1 << n for n in (3, 6, 8, 10, 11))
