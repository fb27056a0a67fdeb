"""Incremental fetch sessions (KIP-227): what each client fetches, and what it was last told.

A session is a numbered conversation: the client sends only the partitions whose position
changed, the broker answers only with partitions that have something new. The number of
sessions is bounded; a client that gets none fetches in full every time, which always works.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final
from uuid import UUID

TopicRef = str | UUID
"""How a request names a topic: by name up to version 12, by id from 13 on."""

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 2**31 - 1


class FetchPartition:
    """One partition that a client fetches, and what the last answer said of it."""

    __slots__ = (
        "leader_epoch", "max_bytes", "offset", "partition", "sent_high_watermark",
        "sent_log_start", "topic",
    )  # fmt: skip

    def __init__(
        self, topic: TopicRef, partition: int, offset: int, max_bytes: int, leader_epoch: int
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.max_bytes = max_bytes
        self.leader_epoch = leader_epoch
        self.sent_high_watermark = -1
        self.sent_log_start = -1


Key = tuple[TopicRef, int]


class SessionRefused(Exception):
    """Raised when a request does not fit its session; ``code`` is Kafka's."""

    NOT_FOUND: Final = 70
    INVALID_EPOCH: Final = 71
    TOPIC_ID_ERROR: Final = 106

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(slots=True)
class FetchSession:
    """The partitions of one conversation, in the order in which they are read next."""

    id: int
    epoch: int
    by_id: bool
    partitions: OrderedDict[Key, FetchPartition]
    used_at: float

    def update(self, changed: Iterable[FetchPartition], forgotten: Iterable[Key]) -> None:
        """Apply what a request adds, moves and drops."""
        for new in changed:
            key = (new.topic, new.partition)
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = new
            else:
                known.offset = new.offset
                known.max_bytes = new.max_bytes
                known.leader_epoch = new.leader_epoch
        for key in forgotten:
            self.partitions.pop(key, None)

    def answered(self, partition: FetchPartition) -> None:
        """A partition that had something new goes to the back, so that none starves."""
        self.partitions.move_to_end((partition.topic, partition.partition))

    def __iter__(self) -> Iterator[FetchPartition]:
        return iter(list(self.partitions.values()))


class FetchSessions:
    """The broker's sessions, the least recently used first."""

    def __init__(
        self, slots: int, idle_seconds: float, now: Callable[[], float], random: Random
    ) -> None:
        self._slots = slots
        self._idle_seconds = idle_seconds
        self._now = now
        self._random = random
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, partitions: Iterable[FetchPartition], *, by_id: bool) -> FetchSession | None:
        """A new session at epoch 1, or None where there is nothing to keep or no slot free."""
        kept = OrderedDict(((p.topic, p.partition), p) for p in partitions)
        if not kept or not self._find_slot():
            return None
        session = FetchSession(self._new_id(), INITIAL_EPOCH + 1, by_id, kept, self._now())
        self._sessions[session.id] = session
        return session

    def resume(self, session_id: int, epoch: int, *, by_id: bool) -> FetchSession:
        """The session whose next request has that epoch. Raises ``SessionRefused``."""
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionRefused(SessionRefused.NOT_FOUND)
        if session.epoch != epoch:
            raise SessionRefused(SessionRefused.INVALID_EPOCH)
        if session.by_id != by_id:
            raise SessionRefused(SessionRefused.TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        session.used_at = self._now()
        self._sessions.move_to_end(session_id)
        return session

    def close(self, session_id: int) -> None:
        """Forget a session; one that is not known is no error."""
        self._sessions.pop(session_id, None)

    def _find_slot(self) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or self._now() - oldest.used_at < self._idle_seconds:
            return False
        del self._sessions[oldest.id]
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randint(1, _MAX_EPOCH)
            if session_id not in self._sessions:
                return session_id
