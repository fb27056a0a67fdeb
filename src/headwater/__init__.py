"""Headwater: Kafka's protocol over an object store, with every topic an Iceberg table.

- ``cli``: the commands.
- ``app``: a broker process, put together.
- ``config``: loads and checks settings.
- ``http``: the HTTP server of metrics, health and the catalog.
- ``broker``: Kafka's APIs over the network.
- ``groups``: consumer groups.
- ``coordination``: which broker coordinates what, by leases.
- ``log``: the storage engine: partitions on object and metadata stores.
- ``engine``: what a broker needs of a storage engine.
- ``pipeline``: compaction and maintenance on Spark, and ``fsck``.
- ``tables``: Iceberg tables and their catalog.
- ``topic_config``: configurations of topics and tables.
- ``producer_ids``: allocates producer ids.
- ``meta``: the metadata store.
- ``cluster_record``: the cluster's identity and feature level in it.
- ``objects``: the object store.
- ``wire``: protocol bytes.
- ``telemetry``: metrics and logs.
- ``feature_levels``: the formats that a broker may write.
- ``errors``: every error, in one tree.
- ``extras``: checks for optional libraries.
- ``setting_types``: types of settings.
- ``work_budget``: bounds on work on the event loop.
- ``retry``: retries.
- ``clock``: clocks.
- ``directories``: durable directories.
"""
