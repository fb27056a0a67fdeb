"""Spark jobs over the log: compaction, maintenance, checks, and reading for users."""
