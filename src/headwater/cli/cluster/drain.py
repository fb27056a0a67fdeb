"""Requesting a broker's drain through the metadata store, and watching it."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self, TextIO

from headwater.broker.cluster.registration import DRAINED, SERVING, DrainRequest, Registration
from headwater.cli.cluster.facts import BrokerFacts, brokers, opened
from headwater.clock import SystemClock
from headwater.errors import ConfigurationError
from headwater.meta import keys
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.transactions import transact
from headwater.meta.values import decode, encode

LOOK_SECONDS: Final = 0.25

Watch = Callable[[BrokerFacts], None]


async def drain_broker(url: str, broker: int, seconds: float, watch: Watch) -> BrokerFacts:
    """Request a drain and wait until it is done or ``seconds`` have passed.

    Raises ``ConfigurationError`` if the broker is not registered, or if no other broker could take
    its clients.
    """
    async with opened(url) as meta:
        await _ask(meta, broker)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            found = await _facts(meta, broker)
            watch(found)
            if found.state == DRAINED or loop.time() >= until:
                return found
            await asyncio.sleep(LOOK_SECONDS)


async def cancel_drain(url: str, broker: int, seconds: float) -> tuple[BrokerFacts, bool]:
    """Cancel a drain; returns the broker's state and whether a drain was requested.

    Waits until the broker serves again or ``seconds`` have passed. Raises ``ConfigurationError`` if
    the broker is not registered.
    """
    key = keys.drain(broker)

    def decide(values: Values) -> tuple[Writes, bool]:
        writes, asked = Writes(), values[key] is not None
        if asked:
            writes.delete(key)
        return writes, asked

    async with opened(url) as meta:
        found = await _facts(meta, broker)
        asked = await transact(meta, [key], decide)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while asked and found.state != SERVING and loop.time() < until:
            await asyncio.sleep(LOOK_SECONDS)
            found = await _facts(meta, broker)
        return found, asked


async def _facts(meta: MetadataStore, broker: int) -> BrokerFacts:
    found = {each.id: each for each in await brokers(meta)}
    if broker not in found:
        live = ", ".join(map(str, found)) or "none"
        raise ConfigurationError(f"broker {broker} is not registered; live brokers: {live}")
    return found[broker]


async def _ask(meta: MetadataStore, broker: int) -> None:
    await _facts(meta, broker)
    others = [each for each in await brokers(meta) if each.id != broker and each.state == SERVING]
    if not others:
        raise ConfigurationError(
            f"broker {broker} is the only one that serves, so its clients cannot move; "
            "start another broker first"
        )
    key, registered, now_ms = keys.drain(broker), keys.broker(broker), SystemClock().now_ms()

    def decide(values: Values) -> tuple[Writes, None]:
        writes, there = Writes(), values[registered]
        if there is None:
            writes.delete(key)
        else:
            epoch = decode(Registration, there.value).epoch
            writes.put(key, encode(DrainRequest(epoch=epoch, requested_ms=now_ms)))
        return writes, None

    await transact(meta, [key, registered], decide)


class DrainProgress:
    """The progress of a drain, shown on a terminal only."""

    def __init__(self, out: TextIO, broker: int) -> None:
        self._status: Any = None
        self._broker = broker
        if out.isatty():
            from rich.console import Console

            self._status = Console(file=out).status(f"Requesting the drain of broker {broker}")

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def at(self, found: BrokerFacts) -> None:
        if self._status is not None:
            active = "clients still send requests" if found.active else "no client sends requests"
            self._status.update(
                f"Broker {self._broker} is {found.state}: "
                f"{found.groups} group shards left, {active}"
            )
