"""The deep check: read every record, on Spark."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final
from uuid import uuid4

import msgspec

from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.reclaim.pins import Pins
from headwater.pipeline.cluster_stores import ClusterStores
from headwater.pipeline.fsck.check_task import CheckResult, pack_check
from headwater.pipeline.fsck.objects import stored_entries
from headwater.pipeline.fsck.report import CheckWatcher, FindingKind, Report
from headwater.pipeline.fsck.stream_checks import StreamChecks
from headwater.pipeline.metadata_reads import read_layout
from headwater.pipeline.spark.runner import Runner

TASK_BYTES: Final = 64 * 2**20
TASK_ENTRIES: Final = 256
PIN_MS: Final = 60_000


async def check_records(
    stores: ClusterStores,
    streams: Mapping[int, tuple[str, int]],
    checks: StreamChecks,
    runner: Runner,
    report: Report,
    watcher: CheckWatcher,
) -> None:
    """Read every record of these streams, given with their name and partition.

    Raises ``StoreUnavailable`` if Spark fails.
    """
    pins = Pins(stores.meta, stores.clock)
    reader = f"fsck-{uuid4().hex[:8]}"
    async with AsyncExitStack() as held:
        tasks = []
        for stream, (name, partition) in streams.items():
            await held.enter_async_context(pins.held(stream, 0, reader, PIN_MS))
            log_start = (await read_layout(stores.meta, stream)).log_start
            entries = [
                entry
                async for entry in stored_entries(stores.meta, stream)
                if entry.end > log_start and not entry.set_aside
            ]
            tasks += [
                pack_check(stream, name, partition, some, stores.location.objects_url)
                for some in _some_at_a_time(entries)
            ]
        if not tasks:
            return
        watcher.at("Reading records", 0, len(tasks))
        results = await asyncio.to_thread(
            runner.run, tasks, lambda done: watcher.at("Reading records", done, len(tasks))
        )
    for data in results:
        result = msgspec.msgpack.decode(data, type=CheckResult)
        report.records_read += result.records
        report.bytes_read += result.bytes
        for start, end, key, problem, gone in result.problems:
            entry = IndexEntry(
                start=start, end=end, kind=0, length=0, size=0, max_timestamp=0, created_ms=0,
                key=key,
            )  # fmt: skip
            if not gone or await checks.is_current(result.stream, entry):
                kind = FindingKind.MISSING if gone else FindingKind.DAMAGED
                report.add(kind, result.name, f"[{start}, {end}): {problem}")


def _some_at_a_time(entries: Sequence[IndexEntry]) -> Iterator[list[IndexEntry]]:
    some: list[IndexEntry] = []
    size = 0
    for entry in entries:
        if some and (size + entry.length > TASK_BYTES or len(some) == TASK_ENTRIES):
            yield some
            some, size = [], 0
        some.append(entry)
        size += entry.length
    if some:
        yield some
