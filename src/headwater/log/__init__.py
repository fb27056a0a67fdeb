"""The log over object storage and a metadata store.

- ``engine``: ``LogEngine``, the engine behind the broker's handlers.
- ``assembly``: how the parts of an engine are put together.
- ``settings``: the section ``log`` of the configuration.
- ``topics``: the cluster's topics, and a broker's cache of them.
- ``incarnation``: the incarnation that a broker writes under.
- ``incarnation_names``: takes a new name to write under.
- ``commit_subscribers``: what is informed of each own commit.
- ``housekeeping``: merging, retention, deletion and garbage collection, as periodic tasks.
- ``record_work``: work on records off the event loop, within a memory limit.
- ``admin_queries``: sizes, producers and epochs that administrators ask for.
- ``formats``: the values in the metadata store, and the files of the log.
- ``append``: from an append call to committed records.
- ``read``: from an offset to record batches.
- ``merge``: merging small index entries into large objects.
- ``reclaim``: retention, deletion of topics, and garbage collection.
- ``jobs``: replacing a range of a stream by files of the pipeline.
- ``restore``: snapshots of the metadata, and bringing a cluster back from the object store.

``docs/explanation/log.md`` explains how they work together.
"""
