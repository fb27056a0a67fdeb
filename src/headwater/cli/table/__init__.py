"""``headwater table``: the pipeline run from a command line.

- ``commands``: the group of commands, ``compact``, ``list`` and ``describe``.
- ``rewrite``: ``rewrite``: joins small files.
- ``clean``: ``clean``: key compaction.
- ``maintain``: ``maintain``: expires table snapshots and removes deleted records.
- ``jobs``: runs jobs for a command.
- ``running``: opens the stores, and ends on a signal.
- ``progress``: the progress bar of a compaction, or log lines.
"""
