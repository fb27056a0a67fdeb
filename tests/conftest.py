"""Settings and hooks for all tests."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from headwater.telemetry.logs import TextFormatter

# A busy machine must not fail a test: examples have no time limit of their own.
settings.register_profile("headwater", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headwater")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Show the values of log lines, which stand in ``extra``, in ``caplog.text`` and reports."""
    plugin: Any = session.config.pluginmanager.get_plugin("logging-plugin")
    for handler in (plugin.caplog_handler, plugin.report_handler):
        handler.setFormatter(TextFormatter(colour=False))
