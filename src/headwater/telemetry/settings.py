"""The sections `metrics` and `logging`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from headwater.setting_types import HostPortText


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Prometheus metrics, health and readiness over HTTP."""

    listen: Annotated[
        HostPortText | None,
        Meta(description="Address to serve them on; port + N for worker N. Off when not set."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingSettings:
    """The log of the process."""

    format: Annotated[
        Literal["auto", "json", "text"],
        Meta(
            description="`auto` is `text` on a terminal, and otherwise `json`: one object per line."
        ),
    ] = "auto"
    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="Minimum level of messages that are written."),
    ] = "info"
