"""The live brokers of the cluster, and which of them clients are sent to.

- ``view``: ``ClusterView``, which handlers use, with leaders and replicas.
- ``registration``: a live broker's record in the metadata store.
- ``membership``: registers this broker and follows the others.
- ``broker_lock``: the lock file of a broker id on one host.
- ``probe``: checks whether a broker answers.
- ``drain``: sends clients elsewhere, on request and before a stop.
- ``ownership``: whether this broker serves a stream to a client.
- ``zones``: the zone in a client id.
- ``features``: the features that ApiVersions lists.
- ``finalize``: raises the cluster's feature level.
"""
