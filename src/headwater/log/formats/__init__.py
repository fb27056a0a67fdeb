"""What the log writes: values in the metadata store, and files in the object store.

- ``metadata_values``: the values of tails, layouts, index entries and other keys.
- ``wal_object``: write-ahead objects (``.wo``).
- ``segment``: segments (``.kfs``), which keep record batches byte for byte.
- ``file_notes``: what a Parquet file notes of the chunks that it was made from.
- ``snapshot_file``: snapshots of the metadata store (``.hwms``).
"""
