"""A week of 100 records/s on 10 partitions, on a simulated clock: how large does the index get?

The log itself runs, with its merging, retention and garbage collection; only time and the
stores are simulated. Once a second every partition gets a batch of ten records.
"""

import asyncio
import time
from dataclasses import asdict, dataclass
from random import Random

from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import prefix_end
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import make_batch, running_engine
from tests.support.simulation.loop import SimulatedClock, SimulatedLoop, run_simulated

PARTITIONS = 10
RECORDS_PER_BATCH = 10
MOST_ENTRIES = 50_000
MOST_OBJECTS = 5_000
WEEK_HOURS = 7 * 24


@dataclass(frozen=True, slots=True)
class WeekOfRecords:
    hours: int
    records: int
    index_entries: int
    objects: int
    puts: int
    seconds: float

    @property
    def within_bars(self) -> bool:
        return self.index_entries < MOST_ENTRIES and self.objects < MOST_OBJECTS


async def _week(loop: SimulatedLoop, hours: int) -> tuple[int, int, int]:
    clock = SimulatedClock(loop)
    meta, objects = MemoryStore(), MemoryObjects(clock=clock)
    settings = LogSettings(cache_bytes=1 << 20)
    async with running_engine(
        meta, objects, settings=settings, clock=clock, rng=Random(1)
    ) as engine:
        topic = await engine.topics.create("t", PARTITIONS, {"retention.ms": "-1"})
        for _second in range(hours * 3600):
            batch = make_batch(count=RECORDS_PER_BATCH, timestamp=clock.now_ms())
            await asyncio.gather(
                *(engine.append(topic, partition, [batch]) for partition in range(PARTITIONS))
            )
            await asyncio.sleep(1)
        total = 0
        for stream in topic.streams:
            prefix = keys.index(0, stream)
            total += len((await meta.scan(prefix, prefix_end(prefix))).entries)
        held = len([info async for info in objects.list("wal/")])
    await meta.close()
    return total, held, objects.traffic.puts


def run(hours: int = WEEK_HOURS) -> WeekOfRecords:
    """Simulate and count."""
    started = time.perf_counter()
    loop = SimulatedLoop()
    entries, objects, puts = run_simulated(_week(loop, hours), loop)
    return WeekOfRecords(
        hours=hours,
        records=hours * 3600 * PARTITIONS * RECORDS_PER_BATCH,
        index_entries=entries,
        objects=objects,
        puts=puts,
        seconds=time.perf_counter() - started,
    )


def main() -> None:
    week = run()
    for name, value in asdict(week).items():
        print(f"{name:15} {value:,}")
    print("within the bars" if week.within_bars else "OVER THE BARS")


if __name__ == "__main__":
    main()
