"""Commits to topics' tables.

- ``changes``: exactly-once changes
- ``watermarks``: which ranges a table contains
- ``snapshots``: one atomic change
- ``statistics``: column statistics of files
- ``live_files``: files that a table refers to
- ``holdings``: the content of a table without a catalog
- ``iceberg_internals``: all uses of pyiceberg's private names
"""
