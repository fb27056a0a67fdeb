"""Gives a transaction time to commit if it keeps losing its comparison.

A transaction over many keys takes longer than one over a single key. While other processes write
those keys, it would lose every time. A transaction that has lost several times therefore puts a
*mark* that says how long one attempt takes. Every transaction of the same domain reads the mark
with its own answer, and the process then delays its next transaction of that domain. The key of
the mark is outside the store's prefix, so that no scan or watch returns it.

Marks only affect fairness: every transaction still compares its keys. A process delays once per
mark, so that the mark of a process that died causes a single pause. However many marks there are,
a process is delayed for at most a quarter of the time.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.meta.etcd.rpc import etcd_pb2 as pb

ATTEMPTS_PER_TURN = 3
"""A mark asks for a pause that is long enough for this many attempts."""
MIN_PAUSE_SECONDS = 0.005
MAX_PAUSE_SECONDS = 0.5
PAUSE_SPACING = 4
"""The next pause starts at least this many times the length of the last pause after it."""


@dataclass(frozen=True, slots=True)
class _Mark:
    revision: int
    pause_until: float


class TurnMarks:
    """The marks that this process has read, by domain, and the operations on them."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._marks: dict[int, _Mark] = {}
        self._next_pause_at: dict[int, float] = {}

    def _key(self, domain: int) -> bytes:
        return f"{self._prefix}!turns/{domain:04d}".encode()

    def read_mark(self, domain: int) -> pb.RequestOp:
        """Reads the domain's mark; pass the answer to ``observe``."""
        return pb.RequestOp(request_range=pb.RangeRequest(key=self._key(domain)))

    def put_mark(self, domain: int, attempt_seconds: float) -> pb.RequestOp:
        """Puts a mark after an attempt that took ``attempt_seconds`` and lost."""
        pause = min(max(ATTEMPTS_PER_TURN * attempt_seconds, MIN_PAUSE_SECONDS), MAX_PAUSE_SECONDS)
        value = b"%d" % round(pause * 1e3)
        return pb.RequestOp(request_put=pb.PutRequest(key=self._key(domain), value=value))

    def delete_mark(self, domain: int) -> pb.RequestOp:
        """Deletes the mark."""
        return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=self._key(domain)))

    def observe(self, domain: int, found: Sequence[pb.KeyValue], now: float) -> None:
        """Take the answer to ``read_mark``; a mark that was read before has no effect."""
        if not found:
            self._marks.pop(domain, None)
            return
        known = self._marks.get(domain)
        if known is not None and known.revision == found[0].mod_revision:
            return
        if now >= self._next_pause_at.get(domain, 0.0):
            pause = _pause_seconds(found[0].value)
            self._marks[domain] = _Mark(found[0].mod_revision, now + pause)
            self._next_pause_at[domain] = now + PAUSE_SPACING * pause

    def pause_until(self, domain: int) -> float:
        """When the next transaction of a domain may start; 0 without a mark."""
        mark = self._marks.get(domain)
        return 0.0 if mark is None else mark.pause_until

    async def wait(self, domain: int) -> None:
        """Wait until the next transaction of a domain may start."""
        left = self.pause_until(domain) - asyncio.get_running_loop().time()
        if left > 0:
            await asyncio.sleep(left)


def _pause_seconds(value: bytes) -> float:
    """The pause that a mark asks for; the shortest if another release wrote it differently."""
    return min(int(value) / 1e3, MAX_PAUSE_SECONDS) if value.isdigit() else MIN_PAUSE_SECONDS
