"""Incremental fetch sessions (KIP-227): the partitions of each client, and what it knows of them.

In a session the client sends only the partitions whose position changed, and the broker answers
only with partitions that changed.

The number of sessions is bounded, as in Kafka, and so is the number of partitions in all of them.
A client without a session sends all its partitions in each request. A session ends with the
connection that used it last. Kafka keeps it for at least two minutes, but clients open a new
session on a new connection in both cases.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final
from uuid import UUID

from headwater.wire.error_codes import Code
from headwater.work_budget import MAX_SESSION_PARTITIONS

TopicRef = str | UUID
"""How a request names a topic: by name up to version 12, by id from 13 on."""

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 2**31 - 1


class FetchPartition:
    """One partition that a client fetches, with the offsets in the last reply."""

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
    """Raised if a request does not fit its session; ``code`` is Kafka's error code."""

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self.code = code


@dataclass(slots=True)
class FetchSession:
    """The partitions of one session, in the order in which they are read next."""

    id: int
    epoch: int
    by_id: bool
    partitions: OrderedDict[Key, FetchPartition]
    used_at: float
    peer: str
    """The client's address on the connection that used it last."""
    counted_partitions: int = 0
    """The number of its partitions in ``FetchSessions.partitions``."""

    def update(self, changed: Iterable[FetchPartition], forgotten: Iterable[Key]) -> None:
        """Apply the partitions that a request adds, changes and forgets."""
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
        """Move a partition that was in a reply to the end, so that none starves."""
        self.partitions.move_to_end((partition.topic, partition.partition))

    def __iter__(self) -> Iterator[FetchPartition]:
        return iter(list(self.partitions.values()))


class FetchSessions:
    """The broker's sessions, the least recently used first."""

    def __init__(
        self,
        slots: int,
        idle_seconds: float,
        now: Callable[[], float],
        random: Random,
        max_partitions: int = MAX_SESSION_PARTITIONS,
    ) -> None:
        self._slots = slots
        self._idle_seconds = idle_seconds
        self._now = now
        self._random = random
        self._max_partitions = max_partitions
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._by_peer: dict[str, set[int]] = {}
        self.partitions = 0
        """The number of partitions in all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, partitions: Iterable[FetchPartition], *, by_id: bool, peer: str = ""
    ) -> FetchSession | None:
        """A new session at epoch 1; None if it has no partitions, or if the broker is at a
        limit.
        """
        kept = OrderedDict(((p.topic, p.partition), p) for p in partitions)
        if not kept or not self._find_room(len(kept)):
            return None
        session = FetchSession(self._new_id(), INITIAL_EPOCH + 1, by_id, kept, self._now(), peer)
        self._sessions[session.id] = session
        self._by_peer.setdefault(peer, set()).add(session.id)
        self._count(session)
        return session

    def resume(self, session_id: int, epoch: int, *, by_id: bool, peer: str = "") -> FetchSession:
        """The session with an id; raises ``SessionRefused`` unless the epoch is its next one."""
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionRefused(Code.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise SessionRefused(Code.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise SessionRefused(Code.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        session.used_at = self._now()
        self._sessions.move_to_end(session_id)
        if session.peer != peer:
            self._leave_peer(session)
            session.peer = peer
            self._by_peer.setdefault(peer, set()).add(session_id)
        return session

    def updated(self, session: FetchSession) -> None:
        """Count a session's partitions again after a request changed them.

        Closes the session and raises ``SessionRefused`` if all sessions have too many.
        """
        self._count(session)
        if self.partitions > self._max_partitions:
            self.close(session.id)
            raise SessionRefused(Code.FETCH_SESSION_ID_NOT_FOUND)

    def close(self, session_id: int) -> None:
        """Forget a session; an unknown id is ignored."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partitions -= session.counted_partitions
            self._leave_peer(session)

    def disconnected(self, peer: str) -> None:
        """Forget the sessions of a connection that has closed."""
        for session_id in tuple(self._by_peer.get(peer, ())):
            self.close(session_id)

    def _count(self, session: FetchSession) -> None:
        size = len(session.partitions)
        self.partitions += size - session.counted_partitions
        session.counted_partitions = size

    def _leave_peer(self, session: FetchSession) -> None:
        sessions = self._by_peer[session.peer]
        sessions.discard(session.id)
        if not sessions:
            del self._by_peer[session.peer]

    def _find_room(self, partitions: int) -> bool:
        """Whether a session with this many partitions fits; evicts idle sessions if necessary."""
        while (
            len(self._sessions) >= self._slots
            or self.partitions + partitions > self._max_partitions
        ):
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or self._now() - oldest.used_at < self._idle_seconds:
                return False
            self.close(oldest.id)
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randint(1, _MAX_EPOCH)
            if session_id not in self._sessions:
                return session_id
