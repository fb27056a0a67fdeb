"""A writer on stores that can be told to fail, on simulated time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from headwater.engine import Appended
from headwater.log.append.sequence_gaps import SequenceGaps
from headwater.log.append.writer import LogWriter
from headwater.log.commit_subscribers import CommittedChunk
from headwater.log.formats.metadata_values import Incarnation
from headwater.log.read.streams import Streams
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import CommitResult, Decide, T, Values, Writes
from headwater.meta.values import encode
from headwater.objects.memory import MemoryObjects
from headwater.telemetry.metrics import Metrics
from tests.support.log.harness import make_batch
from tests.support.log.interrupted import InterruptedObjects, InterruptedStore, Interruption
from tests.support.simulation.loop import SimulatedClock, SimulatedLoop, run_simulated

WHOLE = LogSettings(inline_bytes=0)


class SlowCommits(MemoryStore):
    """Every transaction takes so long."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        await asyncio.sleep(self._seconds)
        return await super().transact(domain, keys, decide)


class TroubledLogWriter:
    """A writer on stores that can be told to fail."""

    def __init__(
        self,
        loop: SimulatedLoop,
        settings: LogSettings,
        store: MemoryStore | None = None,
        name: str = "a",
    ) -> None:
        clock = SimulatedClock(loop)
        self.loop = loop
        self.meta_faults = Interruption()
        self.object_faults = Interruption()
        self.store = store or MemoryStore()
        self.objects = MemoryObjects(clock=clock)
        self.commits: list[tuple[int, int, int]] = []
        self.unknown_outcomes = 0
        self._clock = clock
        self._gaps = SequenceGaps()
        self._settings = settings
        self._name = name
        self.writer = self.make_writer()

    def make_writer(self) -> LogWriter:
        return LogWriter(
            meta=InterruptedStore(self.store, self.meta_faults),
            objects=InterruptedObjects(self.objects, self.object_faults),
            incarnation=self._name,
            settings=self._settings,
            clock=self._clock,
            rng=Random(1),
            metrics=Metrics(),
            streams=Streams(),
            subscribers=[self],
            on_unknown_outcome=self._on_unknown_outcome,
            gaps=self._gaps,
        )

    async def start(self) -> None:
        def decide(_values: Values) -> tuple[Writes, None]:
            writes = Writes()
            writes.put(keys.incarnation(0, self._name), encode(Incarnation(broker=1)))
            return writes, None

        await self.store.transact(0, [], decide)

    def part_committed(self, landed: Sequence[CommittedChunk]) -> None:
        commits = [each.commit for each in landed]
        self.commits += [(one.stream, one.start, one.end) for one in commits]

    def _on_unknown_outcome(self) -> None:
        self.unknown_outcomes += 1

    def append(self, payload: bytes = b"x", stream: int = 1) -> asyncio.Future[Appended]:
        return self.writer.append(stream, [make_batch(payload)])


def simulate(
    work: Callable[[TroubledLogWriter], Awaitable[None]],
    settings: LogSettings = WHOLE,
    store: MemoryStore | None = None,
) -> None:
    loop = SimulatedLoop()

    async def main() -> None:
        bench = TroubledLogWriter(loop, settings, store)
        await bench.start()
        await work(bench)
        await bench.writer.close()
        assert bench.writer.buffer_limit.bytes == 0
        assert bench.writer.buffer_limit.has_room

    run_simulated(main(), loop)


async def outcomes(futures: Sequence[asyncio.Future[Appended]]) -> list[int | str]:
    """Each append's offset, or the name of its error."""
    found = await asyncio.gather(*futures, return_exceptions=True)
    return [one.base_offset if isinstance(one, Appended) else type(one).__name__ for one in found]
