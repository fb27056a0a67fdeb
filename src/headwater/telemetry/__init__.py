"""Telemetry: the log of the process, and its metrics.

- ``logs``: the process's log, as JSON or readable lines.
- ``metrics``: the metrics of a broker process.
- ``prometheus``: exports the metrics in Prometheus' text format.
- ``pages``: the HTTP pages for metrics, health and status.
- ``settings``: the sections of the settings for telemetry.
"""
