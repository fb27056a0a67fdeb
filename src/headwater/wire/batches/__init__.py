"""Record batches (format v2).

- ``batch``: headers and checks of batches
- ``records``: decoding and encoding of single batches
- ``record_walk``: checks of produced records
- ``walk_kernel``: the same, compiled by numba
- ``codecs``: compression
- ``markers``: transaction markers
"""
