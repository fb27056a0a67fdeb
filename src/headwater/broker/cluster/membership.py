"""The live brokers: this broker's registration in the metadata store, and those of the others.

A registration is an ephemeral key with the broker's address and its incarnation. It only says
where clients connect and which ids are in use. It does not protect data: a broker that takes over
an id first fences the incarnation that it finds there, and a fenced incarnation cannot commit.

Each registration gets its epoch from a counter. Its transaction compares the counter and the
cluster's record. So a transaction that compares both knows every registered broker (``finalize``).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from headwater.broker.cluster.finalize import finalize
from headwater.broker.cluster.probe import answers
from headwater.broker.cluster.registration import (
    SERVING,
    Registration,
    address_of,
    shown_to_clients,
)
from headwater.broker.cluster.view import BrokerAddress, LiveBrokers
from headwater.cluster_record import ClusterRecord
from headwater.errors import ConfigurationError, SessionLost, StoreError, UnknownOutcome
from headwater.feature_levels import SUPPORTED_LEVELS, Levels, check_level
from headwater.meta import keys
from headwater.meta.store import Entry, MetadataStore, Session, Values, Writes, prefix_end
from headwater.meta.values import NextNumber, decode, encode

__all__ = ("Membership", "Registration")

log = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 1.0
_TRIES: Final = 10

Fence = Callable[[str], Awaitable[None]]
"""Fences an incarnation, so that it cannot commit any more."""

Probe = Callable[[str, int], Awaitable[bool]]


class Membership:
    """The ``ClusterView`` over a metadata store: ``join``, keep ``run`` in a task, then ``leave``.

    ``incarnation`` returns the name of this broker's present incarnation. With ``exclusive`` the
    caller holds the lock file of this id, so a process that is registered under it is dead;
    without it, such a process is probed at its address.
    """

    def __init__(
        self,
        *,
        meta: MetadataStore,
        address: BrokerAddress,
        cluster_id: str,
        leader_epoch: int,
        incarnation: Callable[[], str],
        fence: Fence,
        exclusive: bool,
        session_seconds: float,
        metrics: str | None = None,
        probe: Probe = answers,
        levels: Levels = SUPPORTED_LEVELS,
        level: Callable[[], int] = lambda: SUPPORTED_LEVELS.highest,
    ) -> None:
        self._meta = meta
        self._address = address
        self.cluster_id = cluster_id
        self.node_id = address.id
        self.leader_epoch = leader_epoch
        self._incarnation = incarnation
        self._fence = fence
        self._exclusive = exclusive
        self._metrics = metrics
        self._probe = probe
        self._session_seconds = session_seconds
        self._session: Session | None = None
        self._levels = levels
        self._level = level
        self._registered = ""
        self._state = SERVING
        self._groups = 0
        self._active = False
        self._others: dict[int, Registration] = {}
        self._all = LiveBrokers([address])
        self._live = LiveBrokers([address])
        self.joined_epoch = -1
        """The epoch of this process's first registration."""
        self._subscribers: list[Callable[[], None]] = []

    @property
    def session(self) -> Session | None:
        """The session of this broker's ephemeral keys; a new one replaces a lost one."""
        return self._session

    @property
    def exclusive(self) -> bool:
        """Whether no other process with this broker's id can be alive."""
        return self._exclusive

    def listen(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` when brokers join or leave, or when this broker has another session."""
        self._subscribers.append(changed)

    def chosen(self, shard: int) -> int:
        """The id of the live broker that should coordinate a shard."""
        return self._live.leader(shard)

    @property
    def state(self) -> str:
        """This broker's state: serving, draining or drained."""
        return self._state

    @property
    def redirects_clients(self) -> bool:
        return self._state != SERVING and not self.alone

    @property
    def alone(self) -> bool:
        """Whether no other broker has the state serving."""
        return all(other.state != SERVING for other in self._others.values())

    @property
    def feature_level(self) -> int:
        return self._level()

    async def finalize(self, level: int, *, dry_run: bool) -> None:
        await finalize(self._meta, level, dry_run=dry_run)

    def find(self, broker_id: int) -> BrokerAddress | None:
        return next((each for each in self._all.addresses if each.id == broker_id), None)

    def lives(self, broker_id: int) -> bool:
        return broker_id == self.node_id or broker_id in self._others

    def zone(self, name: str | None, listener: str) -> LiveBrokers:
        reachable = self._live.at(listener)
        if not reachable.addresses:  # only draining brokers have this listener
            reachable = self._all.at(listener)
        return reachable.zone(name)

    def brokers(self) -> Sequence[BrokerAddress]:
        return self._live.addresses

    def leader(self, stream_id: int) -> int:
        return self._live.leader(stream_id)

    def living(self) -> Collection[str]:
        """The incarnations of all registered brokers, and always that of this broker."""
        return {self._incarnation(), *(other.incarnation for other in self._others.values())}

    async def join(self) -> None:
        """Register this broker, and read the registrations of the others.

        Raises ``ConfigurationError`` if a live broker has this id.
        """
        await self._register(taking_over=True)
        await self._scan()

    async def run(self) -> None:
        """Follow the other brokers' registrations and keep this one registered, until cancelled.

        Raises ``ConfigurationError`` if another process took over this broker's id.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._stay_registered())

    async def announce(self, state: str, *, groups: int = 0, active: bool = False) -> None:
        """Write this broker's state to its registration; without a change nothing is written.

        Raises ``StoreError`` if the store fails.
        """
        if (state, groups, active) == (self._state, self._groups, self._active):
            return
        self._state, self._groups, self._active = state, groups, active
        self._update_live()
        await self._register(taking_over=False)

    async def leave(self) -> None:
        """Delete the registration, so that the id is free and clients go to other brokers."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _register(self, *, taking_over: bool) -> None:
        failed: StoreError | None = None
        for _ in range(_TRIES):
            if self._session is None or self._session.lost:
                self._session = await self._meta.session(self._session_seconds)
            there = await self._meta.get(keys.broker(self.node_id))
            if there is not None:
                await self._fence_registered(there, taking_over=taking_over)
            try:
                if await self._put(there):
                    self._notify()
                    return
                failed = None
            except UnknownOutcome as error:
                failed = error  # the next attempt reads whether it was committed
            except SessionLost as error:
                failed, self._session = error, None  # this process was suspended for too long
        if failed is not None:
            raise failed  # the store failed: no other process wants this id
        raise ConfigurationError(
            f"broker id {self.node_id} is being registered by several processes at once: "
            "give each its own --broker-id"
        )

    async def _fence_registered(self, there: Entry, *, taking_over: bool) -> None:
        """Fence the incarnation that is registered under this id, unless it is this process.

        Raises ``ConfigurationError`` if it is alive, or if this process was taken over.
        """
        found = decode(Registration, there.value)
        if found.incarnation in (self._registered, self._incarnation()):
            return  # our own, perhaps from an attempt with an unknown outcome
        if not taking_over:
            raise ConfigurationError(
                f"broker id {self.node_id} was taken over by {found.host}:{found.port}: "
                "this process stops"
            )
        if not self._exclusive and await self._probe(found.host, found.port):
            raise ConfigurationError(
                f"broker id {self.node_id} is in use at {found.host}:{found.port}: "
                "stop it or choose another --broker-id"
            )
        log.warning(
            "Taking over the broker id of a dead process",
            extra={"broker": self.node_id, "incarnation": found.incarnation},
        )
        await self._fence(found.incarnation)

    async def _put(self, there: Entry | None) -> bool:
        """Replace the registration ``there``; False if it has changed since it was read."""
        assert self._session is not None
        session, key, incarnation = self._session.id, keys.broker(self.node_id), self._incarnation()
        registration = Registration(
            host=self._address.host,
            port=self._address.port,
            incarnation=incarnation,
            session=session,
            rack=self._address.rack,
            metrics=self._metrics,
            levels=self._levels,
            state=self._state,
            groups=self._groups,
            active=self._active,
            listeners={one.listener: (one.host, one.port) for one in self._address.listeners},
        )
        seen = None if there is None else there.revision

        def decide(values: Values) -> tuple[Writes, int | None]:
            writes, now = Writes(), values[key]
            cluster, counted = values[keys.CLUSTER], values[keys.NEXT_BROKER_EPOCH]
            if cluster is not None:
                check_level(decode(ClusterRecord, cluster.value).level, self._levels)
            if (None if now is None else now.revision) != seen:
                return writes, None
            counter = NextNumber() if counted is None else decode(NextNumber, counted.value)
            registration.epoch = counter.next
            counter.next += 1
            writes.put(keys.NEXT_BROKER_EPOCH, encode(counter))
            writes.put(key, encode(registration), session=session)
            return writes, registration.epoch

        asked = [key, keys.CLUSTER, keys.NEXT_BROKER_EPOCH]
        epoch = (await self._meta.transact(0, asked, decide)).result
        if epoch is None:
            return False
        self._registered = incarnation
        if self.joined_epoch < 0:
            self.joined_epoch = epoch
        return True

    async def _stay_registered(self) -> None:
        """Register again if the session is lost, or if the log has a new incarnation."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            lost = self._session is None or self._session.lost
            if not lost and self._registered == self._incarnation():
                continue
            try:
                await self._register(taking_over=False)
            except StoreError as error:
                log.warning("Cannot register this broker; retrying", extra={"error": str(error)})
            else:
                if lost:
                    log.warning("Registered this broker again: its session was lost")

    async def _follow(self) -> None:
        while True:
            try:
                revision = await self._scan()
                async for _ in self._meta.watch(keys.BROKERS, revision):
                    await self._scan()
            except StoreError as error:
                log.warning(
                    "Cannot read the registrations of other brokers; retrying",
                    extra={"error": str(error)},
                )
                await asyncio.sleep(_CHECK_SECONDS)

    async def _scan(self) -> int:
        found = await self._meta.scan(keys.BROKERS, prefix_end(keys.BROKERS))
        others = {
            int(entry.key.removeprefix(keys.BROKERS)): decode(Registration, entry.value)
            for entry in found.entries
        }
        others.pop(self.node_id, None)
        self._others = others
        self._update_live()
        return found.revision

    def _update_live(self) -> None:
        """Derive the live brokers from the registrations, and notify subscribers of a change."""
        registered = {
            broker: (address_of(broker, other), other.state)
            for broker, other in self._others.items()
        }
        registered[self.node_id] = (self._address, self._state)
        self._all = LiveBrokers(address for address, _ in registered.values())
        live = shown_to_clients(registered)
        if live.addresses != self._live.addresses:
            self._live = live
            log.info(
                "The serving brokers have changed",
                extra={"brokers": [address.id for address in live.addresses]},
            )
            self._notify()

    def _notify(self) -> None:
        for changed in self._subscribers:
            changed()
