"""Client quotas, enforced like Kafka's.

- ``entities``: users, client ids and addresses, and the precedence of their quotas.
- ``filters``: the filter of DescribeClientQuotas.
- ``store``: the quotas in the metadata store.
- ``enforcement``: counts usage and computes throttle times.
- ``rates``: rate windows and token buckets.
- ``throttle``: charges requests to quotas.
"""
