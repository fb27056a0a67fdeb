"""Jobs of the pipeline: replacing a range of one stream by files.

- ``jobs``: the states of a job, and the transactions between them.
- ``swap``: the transaction that puts a job's files into the index.
- ``steps``: runs the transactions for a driver of the pipeline.
"""
