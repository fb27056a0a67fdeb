"""Iceberg tables of topics. Their data files are the topics' own log.

- ``topic_tables``: creating, loading and checking a topic's table
- ``commit``: exactly-once commits
- ``files``: writing Parquet files
- ``catalog``: the Iceberg catalog
- ``rest``: the REST catalog that brokers serve
- ``maintenance``: expiry of table snapshots
- ``schema``: the columns
- ``partitioning``: partition specs and sort order
- ``names``: names of tables
- ``locations``: Iceberg locations of objects
- ``settings``: the section `tables`
"""
