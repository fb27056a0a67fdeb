"""Iceberg: every topic a table whose data files are the topic's own log."""
