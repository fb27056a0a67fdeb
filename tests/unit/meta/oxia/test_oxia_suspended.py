"""A machine that is suspended during a commit on Oxia, for longer than tombstones are kept."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from random import Random

import pytest

from headwater.meta.oxia.committer import OxiaCommitter
from headwater.meta.oxia.head_snapshot import HeadSnapshot
from headwater.meta.oxia.keyspace import OxiaKeyspace
from headwater.meta.oxia.reader import OxiaReader
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.oxia.shard import OxiaShard
from headwater.meta.oxia.trimmer import KEPT_MS, OxiaTrimmer
from headwater.meta.store import Writes
from tests.support.simulation.oxia_shard import ShardState


class SuspendableShard(OxiaShard):
    """One machine's calls; ``suspend`` runs once, before an answer is looked at."""

    def __init__(self, state: ShardState, clock: list[float]) -> None:
        self._state = state
        self._clock = clock
        self.number = 0
        self.suspend: Callable[[], Awaitable[None]] | None = None
        self.on_read = False

    async def read(self, gets: Sequence[pb.GetRequest]) -> list[pb.GetResponse]:
        found = [self._state.get(get) for get in gets]
        if self.on_read:
            await self._suspended()
        return found

    async def scan(self, start: str, end: str) -> AsyncIterator[pb.GetResponse]:
        for found in self._state.scan(start, end):
            yield found

    async def write(self, request: pb.WriteRequest) -> pb.WriteResponse:
        answer = self._state.write(request, int(self._clock[0] * 1000))
        if not self.on_read:
            await self._suspended()
        return answer

    async def _suspended(self) -> None:
        if self.suspend is not None:
            suspend, self.suspend = self.suspend, None
            await suspend()


@pytest.mark.parametrize("on_read", [False, True], ids=["own commit", "another's commit"])
async def test_a_key_that_was_purged_meanwhile_is_not_created_again(
    on_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.meta.oxia.committer.OTHERS_APPLY_SECONDS", 0.0)
    state, clock, layout = ShardState(), [0.0], OxiaKeyspace("p")

    def machine() -> tuple[SuspendableShard, OxiaCommitter, OxiaTrimmer]:
        shard = SuspendableShard(state, clock)
        reader = OxiaReader(shard, layout)
        committer = OxiaCommitter(
            shard, layout, reader, Random(1), lambda _n, _items: None, now=lambda: clock[0]
        )
        return shard, committer, OxiaTrimmer(shard, layout, reader, committer)

    suspended, late, _ = machine()
    _, other, trimmer = machine()

    async def put(committer: OxiaCommitter, **entries: bytes) -> None:
        def plan(_seen: HeadSnapshot) -> tuple[Writes, None]:
            return Writes(puts=entries), None

        await committer.commit([], plan)

    async def delete(committer: OxiaCommitter, key: str) -> None:
        await committer.commit([], lambda _seen: (Writes(deletes=[key]), None))

    async def meanwhile() -> None:
        """Others apply the commit, delete its key, and forget the mark."""
        await delete(other, "k")
        clock[0] += 2 * KEPT_MS / 1000
        await put(other, x=b"")
        await trimmer.trim()

    suspended.suspend, suspended.on_read = meanwhile, on_read
    if on_read:
        # A third one proposed and stopped: the first that comes by applies what it finds.
        _, stopped, _ = machine()
        monkeypatch.setattr(stopped, "_apply_until_done", _stop)
        with pytest.raises(KilledCommitter):
            await put(stopped, k=b"v")
        await put(late, y=b"")
    else:
        await put(late, k=b"v")
    left = [layout.name(found.key) for found in state.scan(layout.path("!"), layout.path("~"))]
    assert left == (["x", "y"] if on_read else ["x"])


class KilledCommitter(BaseException):
    """Its process is gone."""


async def _stop(*_: object) -> None:
    raise KilledCommitter
