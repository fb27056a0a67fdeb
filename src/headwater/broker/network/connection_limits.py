"""How many connections a broker accepts, in total and from one address.

``max.connections`` and ``max.connections.per.ip`` are Kafka's, and can be changed while the broker
runs. Some of the process's file descriptors are reserved for its stores in any case.
"""

import resource
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from headwater.broker.configs.entries import BrokerLayers
from headwater.broker.settings import BrokerSettings
from headwater.topic_config.values import whole_number

MAX_CONNECTIONS: Final = "max.connections"
MAX_CONNECTIONS_PER_IP: Final = "max.connections.per.ip"
CONNECTIONS_MAX_IDLE_MS: Final = "connections.max.idle.ms"

RESERVED_DESCRIPTORS: Final = 512
"""File descriptors for stores, metrics and files; half of all if there are fewer than 1,024."""
WANTED_DESCRIPTORS: Final = 2**20
"""The limit that the broker asks for if the system sets none."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The most connections at one time."""

    total: int
    per_address: int


def static_limits(settings: BrokerSettings) -> Mapping[str, str]:
    """The limits that the broker was started with, by Kafka's names."""
    return {
        MAX_CONNECTIONS: str(settings.max_connections),
        MAX_CONNECTIONS_PER_IP: str(settings.max_connections_per_ip),
    }


def connection_limits(
    settings: BrokerSettings, layers: BrokerLayers, descriptors: int
) -> ConnectionLimits:
    """The limits in effect, if the process may open ``descriptors`` file descriptors."""
    given = {**static_limits(settings), **layers.cluster, **layers.own}
    return ConnectionLimits(
        total=min(whole_number(given[MAX_CONNECTIONS]), connection_descriptors(descriptors)),
        per_address=whole_number(given[MAX_CONNECTIONS_PER_IP]),
    )


def connection_descriptors(descriptors: int) -> int:
    """How many of a process's file descriptors connections may take.

    >>> connection_descriptors(20_000), connection_descriptors(256)
    (19488, 128)
    """
    return max(descriptors - RESERVED_DESCRIPTORS, descriptors // 2)


def allowed_descriptors() -> int:
    """How many file descriptors this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Raise this process's soft limit of file descriptors to its hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, WANTED_DESCRIPTORS), hard))


class AddressCounts:
    """How many connections each address has."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, address: str, limit: int) -> bool:
        """Count a connection; False if the address has ``limit`` connections already."""
        if self._counts[address] >= limit:
            if not self._counts[address]:
                del self._counts[address]
            return False
        self._counts[address] += 1
        return True

    def remove(self, address: str) -> None:
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]
