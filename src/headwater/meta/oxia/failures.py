"""Translates Oxia's errors into Headwater's."""

from headwater.errors import StoreError, StoreUnavailable, UnknownOutcome
from headwater.meta.grpc_channels import Failure, never_sent

REFUSED = (
    "oxia: server not initialized yet",
    "oxia: node is not leader for shard",
    "oxia: namespace not found",
    "oxia: session not found",
    "oxia: invalid session timeout",
    "Received message in the wrong state",
)
"""How the errors begin with which a server refuses a request before it accepts it."""
NO_SESSION = "oxia: session not found"


def read_error(server: str, error: Failure) -> StoreError:
    return StoreUnavailable(_text(server, error))


def write_error(server: str, error: Failure) -> StoreError:
    """The error for a failed write: it was certainly not accepted, or its outcome is unknown."""
    if never_sent(error) or (error.details() or "").startswith(REFUSED):
        return StoreUnavailable(_text(server, error))
    return UnknownOutcome(_text(server, error))


def _text(server: str, error: Failure) -> str:
    return f"Oxia at {server}: {error.details() or error.code().name}"
