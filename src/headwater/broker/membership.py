"""Which brokers live: registrations in the metadata store, and this broker's own among them.

A registration is an ephemeral key that carries the broker's address and the incarnation under
which it writes. It only says where clients go and which id is taken; what keeps two brokers
with one id from harming each other is that whoever takes an id over fences the incarnation
that it finds there, and a fenced incarnation cannot commit.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from headwater.broker.cluster import BrokerAddress, LiveBrokers
from headwater.broker.probe import answers
from headwater.errors import ConfigurationError, SessionLost, StoreError, UnknownOutcome
from headwater.meta import keys
from headwater.meta.store import Entry, MetadataStore, Session, Values, Writes, prefix_end
from headwater.meta.values import Value, decode, encode

log = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 1.0
_TRIES: Final = 10

Fence = Callable[[str], Awaitable[None]]
"""Takes an incarnation's right to write away; the log has it."""

Probe = Callable[[str, int], Awaitable[bool]]


class Registration(Value):
    """What a live broker says of itself."""

    host: str
    port: int
    incarnation: str
    session: str
    rack: str | None = None
    metrics: str | None = None
    """Where it serves its status page, as HOST:PORT."""


class Membership:
    """The ``Cluster`` over a metadata store: ``join``, keep ``run`` in a task, then ``leave``.

    ``incarnation`` tells the name that this broker writes under at the moment. With
    ``exclusive`` the caller holds this id's lock file, so that whoever is registered is dead;
    without it a registered broker is asked whether it lives.
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
        self._registered = ""
        self._others: dict[int, Registration] = {}
        self._live = LiveBrokers([address])
        self._listeners: list[Callable[[], None]] = []

    @property
    def session(self) -> Session | None:
        """What this broker's ephemeral keys are bound to; another one after a loss."""
        return self._session

    @property
    def exclusive(self) -> bool:
        """No other process with this broker's id can be alive."""
        return self._exclusive

    def listen(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever brokers come or go, or this one's session is another."""
        self._listeners.append(changed)

    def chosen(self, shard: int) -> int:
        """The id of the live broker that should coordinate a shard."""
        return self._live.leader(shard)

    def lives(self, broker_id: int) -> bool:
        return broker_id == self.node_id or broker_id in self._others

    def zone(self, name: str | None) -> LiveBrokers:
        return self._live.zone(name)

    def brokers(self) -> Sequence[BrokerAddress]:
        return self._live.addresses

    def controller_id(self) -> int:
        return self._live.addresses[0].id

    def leader(self, stream_id: int) -> int:
        return self._live.leader(stream_id)

    def living(self) -> Collection[str]:
        """The incarnations of all brokers that are registered, this one's always among them."""
        return {self._incarnation(), *(other.incarnation for other in self._others.values())}

    async def join(self) -> None:
        """Register, and learn who else is there.

        Raises ``ConfigurationError`` where a broker that lives has this id.
        """
        await self._register(taking_over=True)
        await self._scan()

    async def run(self) -> None:
        """Follow the others and stay registered, until cancelled.

        Raises ``ConfigurationError`` where another process took this broker's id over.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._stay())

    async def leave(self) -> None:
        """Give the id back; clients are sent elsewhere."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _register(self, *, taking_over: bool) -> None:
        for _ in range(_TRIES):
            if self._session is None or self._session.lost:
                self._session = await self._meta.session(self._session_seconds)
            there = await self._meta.get(keys.broker(self.node_id))
            if there is not None:
                await self._make_way(there, taking_over=taking_over)
            try:
                if await self._put(there):
                    self._notify()
                    return
            except UnknownOutcome:
                continue  # the next look shows whether it landed
            except SessionLost:
                self._session = None  # this process was held up for too long
        raise ConfigurationError(
            f"broker id {self.node_id} is being registered by several processes at once: "
            "give each its own --broker-id"
        )

    async def _make_way(self, there: Entry, *, taking_over: bool) -> None:
        """Fence who is registered under this id, unless it is ourselves or it lives."""
        found = decode(Registration, there.value)
        if found.incarnation in (self._registered, self._incarnation()):
            return
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
        log.warning("taking broker id %d over from %s", self.node_id, found.incarnation)
        await self._fence(found.incarnation)

    async def _put(self, there: Entry | None) -> bool:
        """Register over exactly what was seen; False where someone else was faster."""
        assert self._session is not None
        session, key, incarnation = self._session.id, keys.broker(self.node_id), self._incarnation()
        value = encode(
            Registration(
                host=self._address.host,
                port=self._address.port,
                incarnation=incarnation,
                session=session,
                rack=self._address.rack,
                metrics=self._metrics,
            )
        )
        seen = None if there is None else there.revision

        def decide(values: Values) -> tuple[Writes, bool]:
            writes, now = Writes(), values[key]
            if now is not None and now.value == value:
                return writes, True  # an earlier attempt landed
            if (None if now is None else now.revision) != seen:
                return writes, False
            writes.put(key, value, session=session)
            return writes, True

        done = (await self._meta.transact(0, [key], decide)).result
        if done:
            self._registered = incarnation
        return done

    async def _stay(self) -> None:
        """Register again when the session is lost or the incarnation is another."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            lost = self._session is None or self._session.lost
            if not lost and self._registered == self._incarnation():
                continue
            try:
                await self._register(taking_over=False)
            except StoreError as error:
                log.warning("cannot register yet: %s", error)

    async def _follow(self) -> None:
        while True:
            try:
                revision = await self._scan()
                async for _ in self._meta.watch(keys.BROKERS, revision):
                    await self._scan()
            except StoreError as error:
                log.warning("cannot follow the other brokers: %s", error)
                await asyncio.sleep(_CHECK_SECONDS)

    async def _scan(self) -> int:
        found = await self._meta.scan(keys.BROKERS, prefix_end(keys.BROKERS))
        others = {
            int(entry.key.removeprefix(keys.BROKERS)): decode(Registration, entry.value)
            for entry in found.entries
        }
        others.pop(self.node_id, None)
        self._others = others
        addresses = [
            BrokerAddress(broker, other.host, other.port, other.rack)
            for broker, other in others.items()
        ]
        live = LiveBrokers([self._address, *addresses])
        if live.addresses != self._live.addresses:
            self._live = live
            log.info("live brokers: %s", [address.id for address in live.addresses])
            self._notify()
        return found.revision

    def _notify(self) -> None:
        for changed in self._listeners:
            changed()
