"""Serving records from the Parquet files of a topic's table (extra ``table``).

- ``source``: pieces of Parquet files; loads Arrow and numba when they are needed.
- ``rows``: decodes footers and row groups, and encodes record batches from them.
- ``footer``: parses a footer's bytes without Arrow.
- ``survey``: what a restore reads from a file.
- ``detection``: whether a log has Parquet files.
- ``warm_up``: loads the libraries before the first fetch needs them.
"""
