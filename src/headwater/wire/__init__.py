"""Kafka's wire format, without I/O.

- ``messages``: requests and responses
- ``batches``: record batches
- ``columnar``: record batches as Arrow columns
- ``varint``: variable-length integers
- ``error_codes``: Kafka's error codes
"""
