"""What a live broker says of itself, and what follows for those who look."""

from collections.abc import Mapping
from typing import Final

from headwater.broker.cluster.view import BrokerAddress, ListenerAddress, LiveBrokers
from headwater.meta.values import Value

SERVING: Final = "serving"
DRAINING: Final = "draining"
"""It serves on, and clients are sent elsewhere."""
DRAINED: Final = "drained"
"""It drains, holds no group, and no client has asked it for data for a while."""


class Registration(Value):
    """A live broker: an ephemeral key that goes with its session."""

    host: str
    port: int
    """Where other brokers reach it, and clients if it names no listeners."""
    incarnation: str
    session: str
    rack: str | None = None
    metrics: str | None = None
    """Where it serves its status page, as HOST:PORT."""
    epoch: int = 0
    """Grows with every registration of any broker, so that a later one has the larger."""
    levels: tuple[int, int] = (1, 1)
    """The lowest and the highest feature level that it speaks."""
    state: str = SERVING
    groups: int = 0
    """While it drains: the shards of groups that it still holds."""
    active: bool = False
    """While it drains: clients asked it for data within the last seconds."""
    listeners: dict[str, tuple[str, int]] = {}  # noqa: RUF012 - msgspec copies it
    """Host and port by the name of the listener; none if PLAINTEXT is the only one."""


class DrainRequest(Value):
    """That a broker is to let its clients go; it means the process registered at ``epoch``."""

    epoch: int
    requested_ms: int


def address_of(broker_id: int, registration: Registration) -> BrokerAddress:
    listeners = tuple(ListenerAddress(name, *at) for name, at in registration.listeners.items())
    return BrokerAddress(
        broker_id, registration.host, registration.port, registration.rack, listeners
    )


def shown_to_clients(registered: Mapping[int, tuple[BrokerAddress, str]]) -> LiveBrokers:
    """The brokers that clients are sent to: those that serve, or all where none does."""
    serving = [address for address, state in registered.values() if state == SERVING]
    return LiveBrokers(serving or [address for address, _ in registered.values()])
