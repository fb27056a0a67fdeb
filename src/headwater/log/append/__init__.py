"""From an append call to committed records.

- ``writer``: buffers appends, decides when to flush, uploads and commits each flush.
- ``write_buffer``: the appends that are not flushed yet.
- ``buffer_limit``: how many bytes may be buffered.
- ``flush_policy``: which appends skip the flush interval of a remote store.
- ``wal_files``: writes a flush as an object, or at the end of a growing one.
- ``commit_order``: concurrent flushes commit in the order of their buffers.
- ``committer``: runs an incarnation's transactions until their outcomes are known.
- ``commit``: the transaction of a flush, as a pure function.
- ``judge``: whether a batch is appended, a duplicate, or refused.
- ``open_transactions``: the rules for markers and the last stable offset.
- ``sequence_gaps``: which gaps in a producer's sequence get a retriable error.
- ``answers``: from a commit's outcome to the answer of each append.
"""
