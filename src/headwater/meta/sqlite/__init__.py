"""The metadata store in one SQLite file, shared by all processes of one host.

``store``        the ``MetadataStore`` and its background task
``connection``   opening the file: versions, settings, schema
``failures``     SQLite's errors in Headwater's terms
``worker``       one thread that runs blocking calls in order
``writer``       transactions and sessions, on the writer's thread
``recall``       what the writer knows without a look
``one_step``     a commit of puts as one statement
``reader``       reads, on the reader's thread
``changes``      how the change table holds a revision
``neighbours``   waking the other processes after a commit
``checkpointer`` keeping journal and change table short, in one process of all
"""

from headwater.meta.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
