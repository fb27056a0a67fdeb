"""Finishes deleted topics: their tails refuse appends, then their entries and files are released.

An open job of the pipeline ends with its topic. The files of its fixed manifest, which a table may
have and no index entry names, go on the release lists.

The tail and the layout of a deleted stream stay for ever. They have a few bytes, and an append or
swap of a broker that was paused for any time must still lose the comparison.
"""

from collections.abc import Sequence

from headwater.clock import Clock
from headwater.log.formats.metadata_values import DeletedTopic, Layout, Tail
from headwater.log.jobs.jobs import INDEX_SWAPPED, Job
from headwater.log.jobs.swap import entry_of
from headwater.log.read.streams import Streams
from headwater.log.reclaim.releases import release
from headwater.log.reclaim.trim import LogTrimmer
from headwater.meta import keys
from headwater.meta.store import MetadataStore, Values, Writes, prefix_end
from headwater.meta.transactions import transact
from headwater.meta.values import decode, encode

STREAMS_PER_TRANSACTION = 50


class TopicCleaner:
    """Finishes deletions. Any broker may continue one at any point."""

    def __init__(
        self, meta: MetadataStore, streams: Streams, trimmer: LogTrimmer, clock: Clock
    ) -> None:
        self._meta = meta
        self._clock = clock
        self._streams = streams
        self._trimmer = trimmer

    async def close_streams(self, streams: Sequence[int]) -> None:
        """Make all later appends to these streams fail."""
        for start in range(0, len(streams), STREAMS_PER_TRANSACTION):
            some = streams[start : start + STREAMS_PER_TRANSACTION]
            await transact(self._meta, [keys.tail(0, stream) for stream in some], _mark_deleted)
        for stream in streams:
            self._streams.drop(stream)

    async def clean_deleted(self) -> int:
        """Clean up all deleted topics; returns how many."""
        found = await self._meta.scan(keys.DELETED_TOPICS, prefix_end(keys.DELETED_TOPICS))
        for entry in found.entries:
            topic = decode(DeletedTopic, entry.value)
            await self.close_streams(topic.streams)
            for stream in topic.streams:
                await self._empty(stream)

            def forget(_values: Values, key: str = entry.key) -> tuple[Writes, None]:
                writes = Writes()
                writes.delete(key)
                return writes, None

            await transact(self._meta, [], forget)
        return len(found.entries)

    async def _empty(self, stream: int) -> None:
        layout_key, tail_key = keys.layout(0, stream), keys.tail(0, stream)
        job_key = keys.job(0, stream)

        def decide(values: Values) -> tuple[Writes, None]:
            writes = Writes()
            tail_entry = values[tail_key]
            assert tail_entry is not None
            stored = values[layout_key]
            layout = Layout() if stored is None else decode(Layout, stored.value)
            end = decode(Tail, tail_entry.value).high_watermark
            open_job = values[job_key]
            if layout.log_start < end or open_job is not None:
                layout.log_start = end
                layout.generation += 1
                writes.put(layout_key, encode(layout))
            if open_job is not None:
                job = decode(Job, open_job.value)
                # No index names the copies: only the job does, until the table has them.
                lost = [*job.copies, *(job.files if job.state != INDEX_SWAPPED else [])]
                files = [entry_of(file) for file in lost]
                release(writes, stream, files, layout.generation, self._clock.now_ms())
                writes.delete(job_key)
            return writes, None

        await transact(self._meta, [layout_key, tail_key, job_key], decide)
        await self._trimmer.clean(stream)


def _mark_deleted(values: Values) -> tuple[Writes, None]:
    writes = Writes()
    for key, entry in values.items():
        tail = Tail() if entry is None else decode(Tail, entry.value)
        if not tail.deleted:
            tail.deleted = True
            tail.producers = {}
            writes.put(key, encode(tail))
    return writes, None
