"""The cluster as clients see it: the live brokers, and the leader of each partition.

Headwater has no leaders, because any broker serves any partition. Kafka's clients expect one, so
rendezvous hashing assigns each stream to a live broker. When a broker joins or leaves, only the
streams that it gains or loses move.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from headwater.errors import ConfigurationError
from headwater.feature_levels import SUPPORTED_LEVELS

_MASK: Final = 2**64 - 1
PLAINTEXT: Final = "PLAINTEXT"
"""Kafka's security protocol without encryption, and the name of the default listener."""


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """The address of a broker's listener, for its clients."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A live broker and its addresses."""

    id: int
    host: str
    port: int
    rack: str | None = None
    listeners: tuple[ListenerAddress, ...] = ()
    """One for each listener; empty if ``PLAINTEXT`` is the only one, at ``host`` and ``port``."""

    @property
    def advertised(self) -> tuple[ListenerAddress, ...]:
        """The addresses of all its listeners."""
        return self.listeners or (ListenerAddress(PLAINTEXT, self.host, self.port),)

    def at(self, listener: str) -> "BrokerAddress | None":
        """The broker at its address for this listener; None if it has no such listener."""
        for own in self.advertised:
            if own.listener == listener:
                return replace(self, host=own.host, port=own.port)
        return None


class ClusterView(Protocol):
    """What handlers need to know about the cluster; every answer comes from memory."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def node_id(self) -> int:
        """The id of this broker."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The cluster's restore epoch: it rises when the cluster is restored from a snapshot."""
        ...

    def zone(self, name: str | None, listener: str) -> "LiveBrokers":
        """The live brokers in a zone, or all live brokers if the zone has none.

        Each has the address of its listener with this name. Brokers without such a listener are
        left out.
        """
        ...

    def brokers(self) -> Sequence[BrokerAddress]:
        """The live brokers that clients are sent to, by id; draining brokers are left out."""
        ...

    def find(self, broker_id: int) -> BrokerAddress | None:
        """The live broker with an id, draining or not; None if there is none."""
        ...

    @property
    def feature_level(self) -> int:
        """The cluster's finalized feature level."""
        ...

    async def finalize(self, level: int, *, dry_run: bool) -> None:
        """Raise the feature level.

        Raises ``ConfigurationError`` if a broker does not support it, or if it is lower than now.
        """
        ...

    @property
    def redirects_clients(self) -> bool:
        """Whether this broker drains and sends data requests to other brokers."""
        ...

    def leader(self, stream_id: int) -> int:
        """The id of the broker that Metadata names as the leader of a stream."""
        ...


class LiveBrokers:
    """A fixed set of live brokers, with the leaders and replicas that follow from it."""

    __slots__ = ("_addresses", "_at", "_ids", "_leaders", "_racks", "_zones")

    CACHED_LEADERS: Final = 100_000

    def __init__(self, addresses: Iterable[BrokerAddress]) -> None:
        self._addresses = tuple(sorted(addresses, key=lambda address: address.id))
        self._ids = tuple(address.id for address in self._addresses)
        self._leaders: dict[int, int] = {}
        racks = {address.rack for address in self._addresses if address.rack is not None}
        self._racks = tuple(sorted(racks)) if len(racks) > 1 else ()
        self._zones: dict[str, LiveBrokers] = {}
        self._at: dict[str, LiveBrokers] = {}

    @property
    def addresses(self) -> tuple[BrokerAddress, ...]:
        return self._addresses

    def at(self, listener: str) -> "LiveBrokers":
        """The brokers with a listener of this name, at its address; there may be none."""
        known = self._at.get(listener)
        if known is None:
            found = [there for each in self._addresses if (there := each.at(listener)) is not None]
            known = self if tuple(found) == self._addresses else LiveBrokers(found)
            self._at[listener] = known
        return known

    def zone(self, name: str | None) -> "LiveBrokers":
        """The brokers whose rack is the zone; all brokers if there is none, or for no zone."""
        if name is None:
            return self
        known = self._zones.get(name)
        if known is not None:
            return known
        within = [address for address in self._addresses if address.rack == name]
        if not within:
            return self
        zone = self._zones[name] = LiveBrokers(within)
        return zone

    def leader(self, stream_id: int) -> int:
        """The rendezvous choice for a stream, cached."""
        leader = self._leaders.get(stream_id)
        if leader is None:
            if len(self._leaders) >= self.CACHED_LEADERS:
                self._leaders.clear()
            leader = self._leaders[stream_id] = rendezvous(stream_id, self._ids)
        return leader

    def replicas(self, stream_id: int) -> tuple[int, ...]:
        """The leader, and then the choice of each other zone.

        A client accepts a preferred read replica only if it is among a partition's replicas.
        """
        leader = self.leader(stream_id)
        if not self._racks:
            return (leader,)
        chosen = dict.fromkeys(
            (leader, *(self.zone(rack).leader(stream_id) for rack in self._racks))
        )
        by_rack = {address.id: address.rack for address in self._addresses}
        own = by_rack[leader]
        return tuple(each for each in chosen if each == leader or by_rack[each] != own)


def rendezvous(key: int, members: Sequence[int]) -> int:
    """The member with the highest score for ``key``.

    >>> choices = [rendezvous(key, (1, 2, 3)) for key in range(300)]
    >>> all(choices.count(member) > 70 for member in (1, 2, 3))
    True
    >>> [rendezvous(key, (1, 3)) for key in range(300) if choices[key] != 2] == [
    ...     choice for choice in choices if choice != 2]
    True
    """
    if len(members) == 1:
        return members[0]
    return max(members, key=lambda member: (_score(key, member), member))


def _score(key: int, member: int) -> int:
    """SplitMix64's finaliser over both numbers."""
    z = (key * 0x9E3779B97F4A7C15 + (member + 1) * 0xD1B54A32D192ED03) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


class SingleBroker:
    """A cluster of one broker, for tests and for engines without a metadata store."""

    leader_epoch = 0
    redirects_clients = False
    feature_level = SUPPORTED_LEVELS.highest

    def __init__(self, cluster_id: str, address: BrokerAddress) -> None:
        self.cluster_id = cluster_id
        self.node_id = address.id
        self._live = LiveBrokers([address])

    def zone(self, name: str | None, listener: str) -> LiveBrokers:
        return self._live.at(listener).zone(name)

    def brokers(self) -> Sequence[BrokerAddress]:
        return self._live.addresses

    def find(self, broker_id: int) -> BrokerAddress | None:
        return self._live.addresses[0] if broker_id == self.node_id else None

    async def finalize(self, level: int, *, dry_run: bool) -> None:
        if level != self.feature_level:
            raise ConfigurationError(f"the only feature level is {self.feature_level}")

    def leader(self, stream_id: int) -> int:
        return self._live.leader(stream_id)
