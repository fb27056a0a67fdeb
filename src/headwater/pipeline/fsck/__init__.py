"""``headwater fsck``: checks of a cluster.

- ``cluster_check``: the whole check
- ``stream_checks``: streams and their objects
- ``index_checks``: an offset index (pure)
- ``file_checks``: headers and footers of files
- ``table_checks``: tables against the log
- ``objects``: objects and their references
- ``record_check``: the deep check of every record
- ``check_task``: the Spark task of the deep check
- ``repair``: repairs without data loss
- ``report``: findings and progress
"""
