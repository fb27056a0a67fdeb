"""The configurations of topics and tables: names, defaults, checks, and how they are stored.

- ``topic``: Kafka's topic configurations.
- ``table``: the configurations that say how a topic becomes a table.
- ``values``: checks of values; each raises ``ValueError`` with the reason.
- ``stored``: what administrators set, as the metadata store keeps it.
"""
