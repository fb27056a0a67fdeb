"""Writing data files.

- ``parquet``: a range of a stream as a Parquet file
- ``partitioned``: the same, divided by table partitions
- ``transforms``: partition values of records
- ``row_groups``: row groups of similar size
- ``object_writer``: streaming writes of objects
- ``durable_io``: durable local files for pyiceberg
"""
