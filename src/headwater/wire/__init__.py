"""Kafka's protocol as bytes: no I/O, and no event loop.

- ``batches``: record batches and the records in them.
- ``columnar``: record batches to Arrow columns and back (extra ``table``).
- ``messages``: requests and responses.
- ``error_codes``: Kafka's error codes by name.
- ``varint``: variable-length integers.
"""
