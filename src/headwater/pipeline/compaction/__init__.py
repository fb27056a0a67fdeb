"""Compaction: chunks become Parquet files of tables, or segments.

- ``compactor``: the driver: claims, plans and runs jobs
- ``strategies``: what a run plans: compaction, key compaction or rewrites
- ``planner``: the next range of a stream, and its files (pure)
- ``saga``: the steps of jobs
- ``range_task``: the Spark task that writes a file
- ``chunks``: chunks as Arrow record batches
- ``segment_files``: writing segments
- ``table_commits``: commits to tables
- ``summary``: the summary and the progress of a run
"""
