"""Listeners: the sockets that clients connect to, with the addresses that are advertised."""

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
    """Kafka's security protocol of its connections; only PLAINTEXT is served."""

    @property
    def name(self) -> str:
        """Its clients get the addresses of the listeners with this name on all brokers."""
        return self.advertised.listener


def broker_address(
    broker_id: int, advertised: Sequence[ListenerAddress], rack: str | None = None
) -> BrokerAddress:
    """A broker with the addresses of its listeners; other brokers connect to the first one."""
    first = advertised[0]
    named = () if [one.listener for one in advertised] == [PLAINTEXT] else tuple(advertised)
    return BrokerAddress(broker_id, first.host, first.port, rack, named)
