"""The metadata store in one SQLite file, shared by all processes of one host.

- ``store``: the ``MetadataStore`` and its background tasks.
- ``connection``: opens the file: version, settings, schema.
- ``failures``: translates SQLite's errors.
- ``thread``: a thread that runs blocking calls in order.
- ``writer``: transactions and sessions, on the writer's thread.
- ``reader``: reads, on the reader's thread.
- ``changes``: how the change table stores the changes of a revision.
- ``peers``: wakes the other processes after a commit.
- ``checkpointer``: keeps the journal and the change table short, in one of the processes.
"""

from headwater.meta.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
