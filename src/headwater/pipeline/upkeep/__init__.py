"""Key compaction, rewrites and maintenance of tables.

- ``key_compaction_plan``: which files are cleaned (pure)
- ``key_compaction``: cleaning of files in a Spark task
- ``rewrite_plan``: which small files are joined (pure)
- ``maintain``: ``headwater table maintain``
- ``table_releases``: files that left the log leave their table
- ``table_copies``: releases of files of tables that are copies
- ``table_restores``: tables in a restore
- ``table_facts``: the content of a table and its lag
"""
