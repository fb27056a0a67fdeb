"""Object stores: immutable objects under readable keys, in memory, in a directory or in a bucket.

- ``store``: the interface that every backend implements.
- ``urls``: opens the backend that a URL names.
- ``object_keys``: which keys are legal.
- ``retrying``: retries requests that failed temporarily.
- ``health``: judges whether a store is healthy, and suspends requests if it is unavailable.
- ``compatibility``: tests at start-up whether a store can hold a log.
- ``memory``: the backend in memory, for tests and simulation.
- ``local``: the backend in a directory.
- ``remote``: the backends in buckets (S3, Google Cloud Storage, Azure Blob Storage).
"""
