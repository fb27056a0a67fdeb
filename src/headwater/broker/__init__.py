"""The Kafka broker: network, APIs and cluster membership, on top of a storage engine.

- ``network``: sockets, sessions, and the order of requests and replies.
- ``handlers``: one module per Kafka API.
- ``apis``: the table of all APIs, from the modules of ``handlers``.
- ``records``: checks of produced batches, fetch sessions and reads.
- ``topics``: topic access, names and automatic creation.
- ``configs``: configurations that Kafka's tools read and change.
- ``quotas``: client quotas.
- ``cluster``: live brokers, draining and feature levels.
- ``services``: what every handler gets.
- ``settings``: the broker's own settings.
- ``authorizer``: the interface that checks what a client may do.
- ``group_members``, ``group_topics``: conversions that the handlers of group APIs share.
- ``request_fields``: reads fields that older versions of a request lack.
- ``loop_delay``: measures how long the event loop is blocked.
- ``idle_memory``: releases memory when the broker becomes idle.
"""
