"""The metadata store in a PostgreSQL database, shared by brokers on any number of hosts.

- ``store``: the ``MetadataStore`` and its background tasks.
- ``address``: parses the URL.
- ``connections``: opens connections and sets their options.
- ``failures``: translates PostgreSQL's errors.
- ``schema``: creates and upgrades the tables by numbered migrations.
- ``batch``: decides which transactions are committed together.
- ``committer``: the queue of transactions, and their commits.
- ``reader``: reads.
- ``key_text``: keys and range bounds as PostgreSQL's text.
- ``session_expiry``: detects sessions that have not been renewed in time.
- ``wakeups``: NOTIFY and LISTEN, and polling in case a notification is lost.
"""

from headwater.meta.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
