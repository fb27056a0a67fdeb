"""Coordination: which broker owns which shard of a cluster's state, and how its writes last.

- ``shards``: kinds of shards, the entries of a shard that is held, and writes to it.
- ``leases``: which broker holds which shard.
- ``keeper``: taking shards, loading them, leaving them and handing them over.
- ``writer``: one transaction at a time for all that was submitted, compared with the leases.
- ``reads``: scans that are never older than what is known to be written.
- ``timers``: one timer for the deadlines of all entries; ``deadlines``: many within one entry.
"""
