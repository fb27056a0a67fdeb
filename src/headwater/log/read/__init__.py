"""From an offset to record batches.

- ``reader``: answers fetches, from memory if possible.
- ``streams``: what a broker knows of each stream: bounds, recent index entries, long polls.
- ``change_follower``: applies the commits of other brokers to the caches.
- ``index``: looks up index entries in the metadata store.
- ``pieces``: record batches in memory, and the cache of them.
- ``piece_loader``: gets pieces from the cache or from their sources, and prefetches.
- ``load_budget``: a limit on the bytes that are being read for consumers.
- ``sources``: the interface of a source of pieces.
- ``chunk_source``: pieces of chunks, inline or in write-ahead objects.
- ``ranged_reads``: which chunks of an object are read with one request.
- ``filler``: batches for offsets without records.
- ``timestamps``: finds records by timestamp.
- ``parquet``: pieces of Parquet files.
"""
