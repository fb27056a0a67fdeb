"""Coordination: which broker owns which shard of a cluster's state, and its durable writes.

- ``shards``: kinds of shards, and an owned shard with its entries.
- ``leases``: which broker holds which shard.
- ``owner``: takes shards, loads them, resigns and hands them over.
- ``writes``: writes to shards, folded into transactions and split over several.
- ``writer``: makes writes durable, one transaction at a time, comparing the leases.
- ``timers``: one timer for the deadlines of all entries.
- ``deadlines``: the deadlines within one entry; most are extended before they expire.

To add a kind of state, define a ``ShardKind`` and create a ``ShardOwner``, as ``groups`` does.
"""
