"""The metadata store on an Oxia cluster, for the largest clusters.

Oxia has no transaction over several keys: its only atomic comparison is that of one key. So all
commits of a store pass through one key, its *head* (``committer`` has the protocol).

``store``      the ``MetadataStore``
``address``    what the URL says
``shard``      calls to the leader of the one shard that holds the store
``failures``   Oxia's errors in Headwater's terms
``layout``     which keys of Oxia a store has, and what stands in them
``committer``  the one-key protocol
``reader``     reads, and the changes of past commits
``leases``     sessions, and the keys that they leave
``renewals``   the renewal of sessions, on a thread of its own
``trimmer``    forgetting old commits and the marks of deleted keys
``methods``    which of its methods are called
``rpc``        Oxia's messages, generated from its own definition
"""

from headwater.meta.oxia.store import OxiaStore

__all__ = ["OxiaStore"]
