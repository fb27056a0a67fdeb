"""Record batches (format v2), as producers send and consumers receive them.

- ``batch``: a batch as its header describes it, without decoding records.
- ``records``: decodes and encodes records one by one.
- ``codecs``: the compression codecs.
- ``markers``: the control records that end a producer's transaction.
- ``record_walk``: whether a produced batch holds the records that its header claims.
- ``walk_kernel``: that check compiled by numba.
"""
