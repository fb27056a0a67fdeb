"""The metadata store in a PostgreSQL database, shared by brokers on any number of hosts.

``store``        the ``MetadataStore`` and its background tasks
``address``      what the URL says
``connections``  opening connections, and their settings
``failures``     PostgreSQL's errors in Headwater's terms
``schema``       the tables, made and upgraded by numbered migrations
``batch``        which transactions are committed together, as values
``committer``    the queue of transactions and their commits
``reader``       reads
``silence``      which sessions have not been renewed in time
``wakeups``      NOTIFY and LISTEN, and what is looked at from time to time
"""

from headwater.meta.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
