"""Applies the commits of other brokers to the caches, so that these lag as little as possible.

A watch delivers one change per commit, with the new index entries. If a change is missed, because
the watch fell behind or folded commits into one, bounds are read again before they are used.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from headwater.errors import KafkaError, StoreError, WatchTrimmed
from headwater.log.commit_subscribers import CommittedChunk
from headwater.log.formats.metadata_values import Incarnation, IndexEntry, Layout
from headwater.log.read.streams import Streams
from headwater.log.topics import TopicStore
from headwater.meta import keys
from headwater.meta.store import KeyChange, MetadataStore
from headwater.meta.values import decode

logger = logging.getLogger(__name__)

RETRY = 0.5


class ChangeFollower:
    """Applies watched changes to a broker's caches.

    ``own`` returns the name of this broker's incarnation. The caches already have its commits,
    unless an outcome is unknown. ``added`` is called with the stream and length of each entry of
    another broker, and ``gone`` with deleted streams.
    """

    def __init__(
        self,
        meta: MetadataStore,
        streams: Streams,
        topics: TopicStore,
        *,
        own: Callable[[], str],
        window_entries: int,
        added: Callable[[int, int], None],
        gone: Callable[[Collection[int]], None],
    ) -> None:
        self._meta = meta
        self._streams = streams
        self._topics = topics
        self._own = own
        self._window_entries = window_entries
        self._added = added
        self._gone = gone
        self._numbers: dict[str, int] = {}
        self._has_unknown_commit = False
        """Whether a commit of this broker may have been applied although its answer was lost."""

    def mark_unknown(self) -> None:
        """The outcome of this broker's commit is unknown; only the watch will show it."""
        self._has_unknown_commit = True
        self._streams.invalidate_bounds()

    def mark_resolved(self) -> None:
        """A commit of this broker succeeded, so any unknown one before it is decided."""
        if self._has_unknown_commit:
            self._has_unknown_commit = False
            self._streams.invalidate_bounds()

    def part_committed(self, landed: Sequence[CommittedChunk]) -> None:
        """See ``CommitSubscriber``."""
        self.mark_resolved()

    async def run(self) -> None:
        """Follow commits, layouts and topics until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(
                self._follow(keys.incarnations(0), self._commits, self._invalidate_bounds)
            )
            tasks.create_task(self._follow(keys.layouts(0), self._layout, self._invalidate_bounds))
            tasks.create_task(self._follow(keys.TOPICS, self._topic, self._reload_topics))

    async def _follow(
        self,
        prefix: str,
        apply: Callable[[KeyChange], None],
        resync: Callable[[], Awaitable[None]],
    ) -> None:
        while True:
            try:
                after = (await self._meta.scan(prefix, prefix, limit=1)).revision
                await resync()
                async for changes in self._meta.watch(prefix, after):
                    for change in changes:
                        apply(change)
            except WatchTrimmed:
                logger.warning("The watch fell behind; reading all again", extra={"prefix": prefix})
            except (StoreError, KafkaError) as error:
                logger.warning("Cannot follow changes", extra={"prefix": prefix, "error": error})
                await asyncio.sleep(RETRY)

    async def _invalidate_bounds(self) -> None:
        self._streams.invalidate_bounds()

    async def _reload_topics(self) -> None:
        await self._topics.all()

    def _commits(self, change: KeyChange) -> None:
        name = change.key.removeprefix(keys.incarnations(0))
        if change.value is None:
            self._numbers.pop(name, None)
            return
        if name == self._own():
            if self._has_unknown_commit:
                self._streams.invalidate_bounds()
            return
        commit = decode(Incarnation, change.value)
        missed = commit.number - self._numbers.get(name, 0) > 1
        self._numbers[name] = commit.number
        if missed:
            self._streams.invalidate_bounds()
        for each in commit.streams:
            if each.entry is None:
                continue
            entry = decode(IndexEntry, each.entry)
            self._added(each.stream, entry.length)
            if (state := self._streams.get(each.stream)) is not None:
                state.committed(entry, self._window_entries, last_stable=each.last_stable)

    def _layout(self, change: KeyChange) -> None:
        state = self._streams.get(int(change.key.removeprefix(keys.layouts(0))))
        if state is not None and change.value is not None:
            state.rearranged(decode(Layout, change.value).log_start)

    def _topic(self, change: KeyChange) -> None:
        removed = self._topics.changed(change)
        if removed is not None:
            self._gone(removed.streams)
            for stream in removed.streams:
                self._streams.drop(stream)
