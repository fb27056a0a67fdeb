"""Spark: sessions and tasks.

- ``session``: sessions on a local JVM, on a cluster, or through Spark Connect
- ``runner``: running encoded tasks
- ``preflight``: versions on executors
- ``java``: finding and starting Java
- ``daemon``: the process that forks Python workers
- ``error_text``: the essential line of Spark's errors
"""
