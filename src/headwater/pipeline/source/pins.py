"""The pins of a streaming query, held by the process of its stream reader."""

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from headwater.errors import HeadwaterError
from headwater.meta.store_thread import StoreThread
from headwater.pipeline.source.metadata import NamedPin, put_pins, remove_pins
from headwater.pipeline.source.ranges import PartitionBounds

STREAM_PIN_MS: Final = 60_000
"""Time after which the pins of an ended query expire, because Spark kills its process."""


class KeptPins:
    """One pin for each partition, renewed by a thread.

    A batch that begins where the last one ended writes nothing: the pin at a lower offset covers
    it, and is raised with the next renewal.
    """

    def __init__(self, store: StoreThread) -> None:
        self._store = store
        self._name = f"spark-{uuid4().hex}"
        # Replaced and never modified, because two threads read it.
        self._held: Mapping[tuple[str, int], NamedPin] = {}
        self._over = threading.Event()
        self._renewal = threading.Thread(target=self._renew, name="headwater-pins", daemon=True)
        self._renewal.start()

    async def hold(self, wanted: Sequence[tuple[PartitionBounds, int]]) -> None:
        """Pin partitions from these offsets, before their index is read."""
        pins = {
            (each.topic, each.partition): NamedPin(each.stream, low, self._name)
            for each, low in wanted
        }
        new = [pin for key, pin in pins.items() if not self._covers(key, pin)]
        if new:
            await put_pins(self._store.meta, new, STREAM_PIN_MS)
            self._held = {**self._held, **pins}

    def _covers(self, key: tuple[str, int], pin: NamedPin) -> bool:
        held = self._held.get(key)
        return held is not None and held.stream == pin.stream and held.low <= pin.low

    def moved(self, end: Mapping[str, Mapping[str, Any]]) -> None:
        """Records below these offsets were read; raise the pins."""
        self._held = {
            key: NamedPin(pin.stream, max(pin.low, low), pin.name)
            for key, pin in self._held.items()
            if (low := end.get(key[0], {}).get(str(key[1]))) is not None
        }

    def close(self) -> None:
        self._over.set()
        self._renewal.join()
        with contextlib.suppress(HeadwaterError):
            self._store.run(remove_pins(self._store.meta, list(self._held.values())))

    def _renew(self) -> None:
        while not self._over.wait(STREAM_PIN_MS / 1000 / 4):
            # If the store does not answer, the next renewal is early enough.
            with contextlib.suppress(HeadwaterError):
                pins = list(self._held.values())
                self._store.run(put_pins(self._store.meta, pins, STREAM_PIN_MS))
