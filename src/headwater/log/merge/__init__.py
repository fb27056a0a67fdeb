"""Merging small neighbouring index entries into large objects, without Spark.

- ``rounds``: when a round of merges begins, and which streams take part.
- ``merger``: runs merges: plan, read, write one object, swap.
- ``rank``: which run of a stream is worth a merge, and the swap transaction.
- ``plans``: the plans of many streams, so that they are read together and fill objects.
- ``inline_budget``: how many bytes of records are in the metadata store.
"""
