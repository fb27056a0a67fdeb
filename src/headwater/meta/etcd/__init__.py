"""The metadata store on an etcd cluster, for brokers on several hosts.

- ``store``: the ``MetadataStore``.
- ``address``: parses the URL.
- ``members``: calls to any member of the cluster that answers.
- ``failures``: translates etcd's errors.
- ``transactions``: builds etcd's messages for a transaction.
- ``recent_keys``: a cache of keys, which saves most commits a read.
- ``turn_marks``: gives a transaction time to commit that keeps losing to others.
- ``watches``: ordered changes, across reconnects.
- ``leases``: grants and revokes the leases of sessions.
- ``renewals``: renews leases, on a separate thread.
- ``compactor``: compacts old revisions; one of all processes does it at a time.
- ``methods``: the gRPC methods that are called.
- ``rpc``: etcd's messages, generated from its own definition.

A revision is etcd's own revision, of the whole cluster. It also grows when other programs write
to the cluster.
"""

from headwater.meta.etcd.store import EtcdStore

__all__ = ["EtcdStore"]
