"""The registration of a live broker in the metadata store, and its states."""

from collections.abc import Mapping
from typing import Final

from headwater.broker.cluster.view import BrokerAddress, ListenerAddress, LiveBrokers
from headwater.meta.values import Value

SERVING: Final = "serving"
DRAINING: Final = "draining"
"""Its clients are sent to other brokers."""
DRAINED: Final = "drained"
"""It drains, coordinates no group, and had no data request for ``drain.QUIET_SECONDS``."""


class Registration(Value):
    """A live broker: an ephemeral key, which is deleted when the broker's session ends."""

    host: str
    port: int
    """The address for other brokers, and for clients if ``listeners`` is empty."""
    incarnation: str
    session: str
    rack: str | None = None
    metrics: str | None = None
    """The address of its status page, as HOST:PORT."""
    epoch: int = 0
    """Rises with every registration of any broker, so that later ones have larger epochs."""
    levels: tuple[int, int] = (1, 1)
    """The lowest and the highest feature level that it supports."""
    state: str = SERVING
    groups: int = 0
    """While it drains: the number of group shards that it still coordinates."""
    active: bool = False
    """While it drains: whether it had data requests within the last seconds."""
    listeners: dict[str, tuple[str, int]] = {}  # noqa: RUF012 - msgspec copies it
    """Host and port by the name of the listener; empty if PLAINTEXT is the only one."""


class DrainRequest(Value):
    """A request to drain a broker: the process that registered at ``epoch``."""

    epoch: int
    requested_ms: int


def address_of(broker_id: int, registration: Registration) -> BrokerAddress:
    listeners = tuple(ListenerAddress(name, *at) for name, at in registration.listeners.items())
    return BrokerAddress(
        broker_id, registration.host, registration.port, registration.rack, listeners
    )


def shown_to_clients(registered: Mapping[int, tuple[BrokerAddress, str]]) -> LiveBrokers:
    """The brokers that Metadata lists: all with the state serving, or all if none has it."""
    serving = [address for address, state in registered.values() if state == SERVING]
    return LiveBrokers(serving or [address for address, _ in registered.values()])
