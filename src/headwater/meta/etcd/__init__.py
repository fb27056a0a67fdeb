"""The metadata store on an etcd cluster, for brokers on many hosts.

``store``        the ``MetadataStore``
``address``      what the URL says
``members``      calls to whichever member of the cluster answers
``failures``     etcd's errors in Headwater's terms
``transactions`` a transaction's reads, comparisons and writes as etcd's messages
``recent``       keys as they were last seen, so that most commits are one call
``watches``      changes in order, across reconnects
``leases``       sessions
``renewals``     their renewal, on a thread of its own
``compactor``    forgetting old revisions, by one process of all
``methods``      which of its methods are called
``rpc``          etcd's messages, generated from its own definition

A revision is etcd's own, of the whole cluster: it also grows with what others write there.
"""

from headwater.meta.etcd.store import EtcdStore

__all__ = ["EtcdStore"]
