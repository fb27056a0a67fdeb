"""Topics as requests name them.

- ``access``: finds a topic and partition, and checks the client's right to use it.
- ``names``: Kafka's rules for topic names.
- ``creation``: creates missing topics of a Metadata request.
- ``replica_assignment``: checks manual replica assignments.
- ``table_names``: keeps two topics from having the same table.
"""
