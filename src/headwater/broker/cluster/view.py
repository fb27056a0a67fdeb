"""The cluster as clients see it: which brokers live, and which one they should talk to.

Headwater has no leaders: any broker serves any partition. Clients want one all the same, so
each stream is given to a live broker by rendezvous hashing: when a broker comes or goes, only
the streams that it had, or gets, move.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from headwater.errors import ConfigurationError
from headwater.feature_levels import SPOKEN

_MASK: Final = 2**64 - 1
PLAINTEXT: Final = "PLAINTEXT"
"""Kafka's protocol without encryption, and the listener of a broker that names none."""


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """Where clients of one listener reach a broker."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A live broker and where clients reach it."""

    id: int
    host: str
    port: int
    rack: str | None = None
    listeners: tuple[ListenerAddress, ...] = ()
    """One for each listener; none if ``PLAINTEXT`` is the only one, at ``host`` and ``port``."""

    @property
    def advertised(self) -> tuple[ListenerAddress, ...]:
        """The address of each of its listeners."""
        return self.listeners or (ListenerAddress(PLAINTEXT, self.host, self.port),)

    def at(self, listener: str) -> "BrokerAddress | None":
        """The broker with that listener's address as its own; None if it has no such listener."""
        for own in self.advertised:
            if own.listener == listener:
                return replace(self, host=own.host, port=own.port)
        return None


class Cluster(Protocol):
    """What handlers ask; every answer comes from memory."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def node_id(self) -> int:
        """This broker."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The cluster's restore epoch: it grows when the cluster is set back to a snapshot."""
        ...

    def zone(self, name: str | None, listener: str) -> "LiveBrokers":
        """The live brokers that clients of a zone are shown: those in it, or all.

        Each has the address of the listener that the client came by. One that has no listener of
        that name is not among them.
        """
        ...

    def brokers(self) -> Sequence[BrokerAddress]:
        """The live brokers that clients are sent to, by id; one that drains is not among them."""
        ...

    def find(self, broker_id: int) -> BrokerAddress | None:
        """A live broker, draining or not."""
        ...

    @property
    def feature_level(self) -> int:
        """The cluster's finalized feature level."""
        ...

    async def finalize(self, level: int, *, dry_run: bool) -> None:
        """Raise the feature level. Raises ``ConfigurationError`` where that is not possible."""
        ...

    @property
    def sends_away(self) -> bool:
        """Clients that ask this broker for data are to ask who has it now, and go there."""
        ...

    def leader(self, stream_id: int) -> int:
        """The id of the broker that clients are told to use for a stream."""
        ...


class LiveBrokers:
    """A fixed set of live brokers with the choices that follow from it."""

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
        """Those that have a listener of that name, each at its address; there may be none."""
        known = self._at.get(listener)
        if known is None:
            found = [there for each in self._addresses if (there := each.at(listener)) is not None]
            known = self if tuple(found) == self._addresses else LiveBrokers(found)
            self._at[listener] = known
        return known

    def zone(self, name: str | None) -> "LiveBrokers":
        """The brokers whose rack is that zone; all of them where there is none, or no zone."""
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
        """The rendezvous choice, remembered."""
        leader = self._leaders.get(stream_id)
        if leader is None:
            if len(self._leaders) >= self.CACHED_LEADERS:
                self._leaders.clear()
            leader = self._leaders[stream_id] = rendezvous(stream_id, self._ids)
        return leader

    def replicas(self, stream_id: int) -> tuple[int, ...]:
        """The leader, and after it the choice of every zone, which clients may be sent to.

        Clients go to no broker for a partition that is not among its replicas.
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
    """A cluster of one, for tests and for engines that have no metadata store."""

    leader_epoch = 0
    sends_away = False
    feature_level = SPOKEN.highest

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
