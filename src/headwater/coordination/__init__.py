"""Coordination: which broker owns which shard of a cluster's state, and how its writes last.

- ``shards``: kinds of shards, and an owned shard with its entries.
- ``leases``: which broker holds which shard.
- ``owner``: takes shards, loads them, resigns and hands them over.
- ``writes``: writes to shards, folded into transactions and split over several.
- ``writer``: makes writes durable, one transaction at a time, comparing the leases.
- ``reads``: scans that are never older than the last known write.
- ``timers``: one timer for the deadlines of all entries.
- ``deadlines``: many deadlines within one entry, of which few ever fire.

A kind of state attaches with a ``ShardKind`` and one ``ShardOwner`` for it; ``groups`` does.
"""
