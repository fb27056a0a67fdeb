"""The incarnation that a broker writes under: everything that is replaced after a fence."""

import asyncio
from dataclasses import dataclass

from headwater.log.append.writer import LogWriter
from headwater.log.merge.merger import Merger


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveIncarnation:
    """A name, and the parts that write under it. It is replaced as a whole."""

    name: str
    writer: LogWriter
    merger: Merger
    fenced: asyncio.Event
    """Set when the name was fenced: another incarnation must replace it."""


class CurrentIncarnation:
    """Refers to the active incarnation, for the parts that outlive it."""

    def __init__(self) -> None:
        self._active: ActiveIncarnation | None = None

    def replace(self, incarnation: ActiveIncarnation) -> None:
        self._active = incarnation

    def name(self) -> str:
        """Empty before the engine is started."""
        return "" if self._active is None else self._active.name

    @property
    def active(self) -> ActiveIncarnation:
        assert self._active is not None, "the engine is not started"
        return self._active

    @property
    def writer(self) -> LogWriter:
        return self.active.writer

    @property
    def merger(self) -> Merger:
        return self.active.merger
