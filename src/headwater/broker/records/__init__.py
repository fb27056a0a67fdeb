"""What Produce and Fetch do with records.

- ``topic_rules``: a topic's rules for the batches that it accepts.
- ``admission``: checks a batch by its header.
- ``record_checks``: checks the records of a batch, and recompresses it.
- ``fetch_sessions``: incremental fetch sessions (KIP-227).
- ``fetch_reads``: reads the partitions of one Fetch request under one limit of bytes.
"""
