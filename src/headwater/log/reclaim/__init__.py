"""Retention, deletion of topics, and garbage collection.

- ``retention``: where a stream's log should start, by time and size.
- ``trim``: advances a log start, and removes the index entries below it.
- ``topic_deletion``: finishes deleted topics.
- ``releases``: lists what left the index and waits for its deletion.
- ``pins``: readers outside the brokers that keep objects.
- ``garbage``: deletes released objects, files of lost attempts and expired snapshots.
- ``orphans``: fences dead incarnations, and deletes the objects that they did not commit.
- ``reclaimer``: the only way to delete an object, with the reason.
"""
