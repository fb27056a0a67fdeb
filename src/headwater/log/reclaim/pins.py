"""Pins: readers outside the brokers keep the objects of a stream while they read it.

A reader writes its pin, then reads the index, then the objects. It renews the pin while it works
and removes it at the end. Objects that are released after the index was read are kept until the pin
is removed or expires. Expiry is by the wall clock, so a reader renews long before it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from headwater.clock import Clock
from headwater.errors import KafkaError
from headwater.log.formats.metadata_values import Pin
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.meta.store import Entry, MetadataStore, Values, Writes, prefix_end
from headwater.meta.transactions import transact
from headwater.meta.values import decode, encode

RENEWALS = 4
"""Renewals of a pin within its time to live."""


class Pins:
    """The pins of one cluster. ``reader`` names one reader of one stream."""

    def __init__(self, meta: MetadataStore, clock: Clock) -> None:
        self._meta = meta
        self._clock = clock

    async def put(self, stream: int, low: int, reader: str, ttl_ms: int) -> None:
        """Write or renew a pin: the stream's objects from offset ``low`` on are kept."""
        value = encode(Pin(low=low, expires_ms=self._clock.now_ms() + ttl_ms))

        def decide(_values: Values) -> tuple[Writes, None]:
            writes = Writes()
            writes.put(keys.pin(0, stream, reader), value)
            return writes, None

        await transact(self._meta, [], decide)

    async def remove(self, stream: int, reader: str) -> None:
        def decide(_values: Values) -> tuple[Writes, None]:
            writes = Writes()
            writes.delete(keys.pin(0, stream, reader))
            return writes, None

        await transact(self._meta, [], decide)

    @contextlib.asynccontextmanager
    async def held(self, stream: int, low: int, reader: str, ttl_ms: int) -> AsyncIterator[None]:
        """Keep a pin while the body runs, renewed in the background."""
        await self.put(stream, low, reader, ttl_ms)
        renewal = asyncio.create_task(self._renew(stream, low, reader, ttl_ms))
        try:
            yield
        finally:
            renewal.cancel()
            await asyncio.wait([renewal])
            await self.remove(stream, reader)

    async def _renew(self, stream: int, low: int, reader: str, ttl_ms: int) -> None:
        while True:
            await asyncio.sleep(ttl_ms / 1000 / RENEWALS)
            # If the store is briefly unavailable, the next renewal is soon enough.
            with contextlib.suppress(KafkaError):
                await self.put(stream, low, reader, ttl_ms)

    async def lowest(self, stream: int) -> int | None:
        """The lowest offset of a stream that a pin keeps; None if there is no pin."""
        now_ms = self._clock.now_ms()
        prefix = keys.pins_of_stream(0, stream)
        found = (await self._meta.scan(prefix, prefix_end(prefix))).entries
        pins = [decode(Pin, entry.value) for entry in found]
        return min((pin.low for pin in pins if pin.expires_ms > now_ms), default=None)

    async def hold(self, stream: int, end: int) -> bool:
        """Whether a pin keeps records below ``end``."""
        low = await self.lowest(stream)
        return low is not None and low < end

    async def remove_expired(self) -> None:
        """Remove expired pins."""
        now_ms = self._clock.now_ms()
        async for entry in scan_all(self._meta, keys.pins(0)):
            if decode(Pin, entry.value).expires_ms <= now_ms:
                await self._remove_expired(entry)

    async def _remove_expired(self, expired: Entry) -> None:
        def decide(values: Values) -> tuple[Writes, None]:
            writes = Writes()
            there = values[expired.key]
            if there is not None and there.value == expired.value:
                writes.delete(expired.key)
            return writes, None

        await transact(self._meta, [expired.key], decide)
