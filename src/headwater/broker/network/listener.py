"""The sockets that clients come by, and the addresses that clients are told for them."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.broker.cluster.view import PLAINTEXT, BrokerAddress, ListenerAddress


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket, which its server owns."""

    accepting: socket.socket
    advertised: ListenerAddress
    protocol: str = PLAINTEXT
    """What is spoken on its connections; there is one protocol."""

    @property
    def name(self) -> str:
        """Clients that came by it are sent to the listeners of this name at all brokers."""
        return self.advertised.listener


def broker_address(
    broker_id: int, advertised: Sequence[ListenerAddress], rack: str | None = None
) -> BrokerAddress:
    """A broker at the addresses of its listeners; other brokers reach it at the first."""
    first = advertised[0]
    named = () if [one.listener for one in advertised] == [PLAINTEXT] else tuple(advertised)
    return BrokerAddress(broker_id, first.host, first.port, rack, named)
