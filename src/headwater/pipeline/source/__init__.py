"""The Spark data source ``headwater``.

- ``data_source``: the entry point for Spark
- ``options``: parsing of options
- ``filters``: filters that exclude ranges
- ``plan``: the plan of a batch query
- ``ranges``: bounds and ranges of partitions
- ``read``: the task that reads a range
- ``record_batches``: Arrow record batches from any kind of index entry
- ``stream``: Structured Streaming
- ``pins``: the pins of a streaming query
- ``group_lag``: the progress of a streaming query in a consumer group
- ``metadata``: the metadata store without an event loop
- ``spark_classes``: Spark's base classes
"""
