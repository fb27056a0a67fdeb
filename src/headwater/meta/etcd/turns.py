"""Letting a transaction through that keeps losing its comparison.

A transaction over many keys takes longer than one over a single key, so that others can always be
faster, and it would lose for as long as they are busy. So who has lost a few times asks for a
turn: the attempt that loses leaves a mark, which says how long one attempt takes, and whoever
meets the mark holds back its next transaction of that domain for this long. The mark stands beside
the data, where no scan or watch sees it.

Nothing but fairness rests on it. Every transaction still compares its keys, and a mark is heeded
once: what a process that died has left behind costs every other a single pause. However many ask,
and however slow they are, nobody is held back for more than a quarter of the time.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.meta.etcd.rpc import etcd_pb2 as pb

ATTEMPTS = 3
"""How many of its attempts one that asks is given the time for."""
SHORTEST_SECONDS = 0.005
LONGEST_SECONDS = 0.5
REST = 4
"""After a pause no mark is heeded before so many times its length have passed since it began."""


@dataclass(frozen=True, slots=True)
class _Mark:
    revision: int
    until: float


class Turns:
    """The marks that this process has met, and the operations on them."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._marks: dict[int, _Mark] = {}
        self._rested: dict[int, float] = {}

    def _key(self, domain: int) -> bytes:
        return f"{self._prefix}!turns/{domain:04d}".encode()

    def look(self, domain: int) -> pb.RequestOp:
        """Read the domain's mark; ``met`` takes what it finds."""
        return pb.RequestOp(request_range=pb.RangeRequest(key=self._key(domain)))

    def ask(self, domain: int, attempt_seconds: float) -> pb.RequestOp:
        """Leave a mark: an attempt took so long, and lost."""
        asked = min(max(ATTEMPTS * attempt_seconds, SHORTEST_SECONDS), LONGEST_SECONDS)
        value = b"%d" % round(asked * 1e3)
        return pb.RequestOp(request_put=pb.PutRequest(key=self._key(domain), value=value))

    def thank(self, domain: int) -> pb.RequestOp:
        """Take the mark away."""
        return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=self._key(domain)))

    def met(self, domain: int, found: Sequence[pb.KeyValue], now: float) -> None:
        """Note the mark that ``look`` found; one that was met before asks for nothing more."""
        if not found:
            self._marks.pop(domain, None)
            return
        known = self._marks.get(domain)
        if known is not None and known.revision == found[0].mod_revision:
            return
        if now >= self._rested.get(domain, 0.0):
            asked = _asked(found[0].value)
            self._marks[domain] = _Mark(found[0].mod_revision, now + asked)
            self._rested[domain] = now + REST * asked

    def held_until(self, domain: int) -> float:
        """When the next transaction of a domain may begin; 0 where nobody asks for a turn."""
        mark = self._marks.get(domain)
        return 0.0 if mark is None else mark.until

    async def let_pass(self, domain: int) -> None:
        """Hold back for as long as the mark asks for."""
        left = self.held_until(domain) - asyncio.get_running_loop().time()
        if left > 0:
            await asyncio.sleep(left)


def _asked(value: bytes) -> float:
    """The seconds that a mark asks for; one that another release wrote may say it otherwise."""
    return min(int(value) / 1e3, LONGEST_SECONDS) if value.isdigit() else SHORTEST_SECONDS
