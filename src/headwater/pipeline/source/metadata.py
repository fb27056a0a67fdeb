"""The metadata store for Spark's planning and tasks, which have no event loop."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from headwater.clock import SystemClock
from headwater.errors import ConfigurationError
from headwater.log.formats.metadata_values import Pin
from headwater.meta import keys
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.store_thread import StoreThread
from headwater.meta.transactions import transact
from headwater.meta.values import encode

PIN_MS: Final = 600_000
"""Lifetime of a pin without renewal; a planned task may wait this long for other tasks."""

_AT_ONCE: Final = 64


def open_thread(url: str) -> StoreThread:
    """Open a store. Raises ``ConfigurationError`` if it does not exist."""
    _check_there(url)
    return StoreThread(url)


@contextlib.contextmanager
def opened(url: str) -> Iterator[StoreThread]:
    """Open a store for the duration of a block."""
    store = open_thread(url)
    try:
        yield store
    finally:
        store.close()


def _check_there(url: str) -> None:
    if url.startswith("memory:"):
        raise ConfigurationError(f"{url} is in its broker's memory, which Spark cannot read")
    parts = urlsplit(url)
    # Opening would create the file.
    if parts.scheme == "sqlite" and not Path(unquote(parts.path)[1:]).exists():
        raise ConfigurationError(
            f"there is no cluster in {url}: give the --metadata of `headwater serve`"
        )


@dataclass(frozen=True, slots=True)
class NamedPin:
    """A pin and its stream; see ``headwater.log.reclaim.pins``."""

    stream: int
    low: int
    name: str


async def put_pins(meta: MetadataStore, pins: Sequence[NamedPin], ttl_ms: int = PIN_MS) -> None:
    """Write or renew pins, ``_AT_ONCE`` per transaction."""
    expires_ms = SystemClock().now_ms() + ttl_ms
    for first in range(0, len(pins), _AT_ONCE):
        some = pins[first : first + _AT_ONCE]

        def decide(_values: Values, some: Sequence[NamedPin] = some) -> tuple[Writes, None]:
            writes = Writes()
            for pin in some:
                value = encode(Pin(low=pin.low, expires_ms=expires_ms))
                writes.put(keys.pin(0, pin.stream, pin.name), value)
            return writes, None

        await transact(meta, [], decide)


async def remove_pins(meta: MetadataStore, pins: Sequence[NamedPin]) -> None:
    """Remove pins, ``_AT_ONCE`` per transaction."""
    for first in range(0, len(pins), _AT_ONCE):
        some = pins[first : first + _AT_ONCE]

        def decide(_values: Values, some: Sequence[NamedPin] = some) -> tuple[Writes, None]:
            writes = Writes()
            for pin in some:
                writes.delete(keys.pin(0, pin.stream, pin.name))
            return writes, None

        await transact(meta, [], decide)
