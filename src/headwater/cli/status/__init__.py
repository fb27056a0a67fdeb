"""``headwater status``: counts over a cluster, and its monthly cost.

- ``commands``: the command.
- ``survey``: counts over the metadata store.
- ``cost``: the cost of the object store, from brokers' request counts.
"""
