"""The metadata store on an Oxia cluster, for the largest clusters.

Oxia has no transaction over several keys; it can only compare one key at a time. All commits of a
store therefore go through one key, the *head*. ``committer`` describes the protocol.

- ``store``: the ``MetadataStore`` and its background tasks.
- ``address``: parses the URL.
- ``shard``: calls to the leader of the Oxia shard that holds the store.
- ``failures``: translates Oxia's errors.
- ``keyspace``: the Oxia keys of a store, and the encoding of their values.
- ``committer``: the commit protocol.
- ``group_commit``: commits waiting transactions together.
- ``head_snapshot``: what a transaction reads.
- ``commit_cache``: the keys of this process's last commits, which saves commits a read.
- ``reader``: reads, and the changes of past commits.
- ``sessions``: sessions, and the keys that they leave behind.
- ``renewals``: renews sessions, on a separate thread.
- ``trimmer``: deletes old commits, and tombstones of deleted keys.
- ``methods``: the gRPC methods that are called.
- ``rpc``: Oxia's messages, generated from its own definition.
"""

from headwater.meta.oxia.store import OxiaStore

__all__ = ["OxiaStore"]
