"""Calls between a store's client and its server that take time, get lost, or arrive late."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from headwater.errors import StoreError, StoreUnavailable, UnknownOutcome

T = TypeVar("T")

CALL_SECONDS = 5.0
"""After so long the client gives a call up."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the network is; the rates are fractions of all calls."""

    delay: float
    lost_request: float
    lost_reply: float
    late: float
    """Writes that their client gave up and that the server gets afterwards."""
    latest: float
    """Seconds by which the last of them is late."""


def some_weather(random: Random) -> Weather:
    return Weather(
        delay=random.choice([0.001, 0.05, 0.5]),
        lost_request=random.choice([0, 0.05]),
        lost_reply=random.choice([0, 0.1]),
        late=random.choice([0, 0.1]),
        latest=random.choice([1, 30, 300]),
    )


class Network:
    """One client's way to the server."""

    def __init__(self, random: Random, weather: Weather) -> None:
        self._random = random
        self.weather = weather

    async def call(self, serve: Callable[[], T], *, writes: bool = False) -> T:
        """Have the server do something; a lost call fails as the real client fails."""
        weather, chance = self.weather, self._random.random()
        await self._delay()
        if chance < weather.lost_request:
            raise await self._lost(writes=writes)
        chance -= weather.lost_request
        if writes and chance < weather.late:
            late = self._random.uniform(0, weather.latest)
            asyncio.get_running_loop().call_later(CALL_SECONDS + late, serve)
            raise await self._lost(writes=True)
        answer = serve()
        if chance - weather.late < weather.lost_reply and chance >= weather.late:
            raise await self._lost(writes=writes)
        await self._delay()
        return answer

    async def pause(self) -> None:
        """What passes between two steps of the server's work for one call."""
        await asyncio.sleep(self._random.uniform(0, self.weather.delay / 20))

    async def _delay(self) -> None:
        await asyncio.sleep(self._random.uniform(0, self.weather.delay))

    async def _lost(self, *, writes: bool) -> StoreError:
        await asyncio.sleep(CALL_SECONDS)
        return UnknownOutcome("no answer") if writes else StoreUnavailable("no answer")
