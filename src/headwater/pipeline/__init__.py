"""Spark jobs over topics: compaction, key compaction, a data source, checks and maintenance.

- ``compaction``: plan, write and commit jobs
- ``upkeep``: key compaction, rewrites, and maintenance of tables
- ``source``: the Spark data source ``headwater``
- ``fsck``: checks of a cluster
- ``spark``: Spark sessions and running tasks
- ``sql``: Spark SQL over topics
- ``settings``: the section `pipeline`
- ``cluster_stores``: the opened stores of a cluster
- ``metadata_reads``: reads of topics, streams and job claims
- ``object_reads``: ranged reads of objects without an event loop
- ``read_ahead``: prefetch for these reads
- ``headwater_version``: the installed version
"""
