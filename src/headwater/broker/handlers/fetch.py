"""Fetch, versions 4-18.

Behaviour: returns whole batches from the one that contains the fetch offset, within ``max_bytes``
of the request and of each partition. The first partition with data always returns at least one
batch. A reply with less than ``min_bytes`` waits up to ``max_wait`` for more; a change of its
partitions wakes it, not a timer. ``read_committed`` reads up to the last stable offset, and the
reply names the aborted transactions. A client over its byte rate gets no records, and a throttle
time.

Codes: OFFSET_OUT_OF_RANGE (1); UNKNOWN_TOPIC_OR_PARTITION (3); NOT_LEADER_OR_FOLLOWER (6): this
broker drains, or is not the owner while ``enforce_owner`` is set; TOPIC_AUTHORIZATION_FAILED (29);
FETCH_SESSION_ID_NOT_FOUND (70); INVALID_FETCH_SESSION_EPOCH (71); FENCED_LEADER_EPOCH (74);
UNKNOWN_LEADER_EPOCH (75); UNKNOWN_TOPIC_ID (100); FETCH_SESSION_TOPIC_ID_ERROR (106).

Notes by version: incremental sessions (KIP-227) from 7 (70, 71, 106); leader epochs from 9 (74,
75); the client's rack from 11: if it has a broker, the reply names it as the preferred read replica
(KIP-392); topic ids in place of names from 13 (100 unknown id).

Left out: fetches by replicas, because there are none, and diverging epochs.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from headwater.broker.cluster.ownership import count_zone_bytes
from headwater.broker.cluster.zones import zone_of
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import EncodedReply, Reply
from headwater.broker.records.fetch_reads import FetchLimits, FetchOutcome, read_all, read_cached
from headwater.broker.records.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchPartition,
    FetchSession,
    Key,
    SessionRefused,
    TopicRef,
)
from headwater.broker.services import RequestContext, Services
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.wire.messages.encoder import Segments
from headwater.wire.messages.replies import encode_fetch
from headwater.work_budget import TURN_ELEMENTS, in_turns

RequestedPartitions = dict[Key, FetchPartition]
"""The partitions of a request. One that is named twice counts once, as in Kafka."""

_FIRST_VERSION_WITH_SESSIONS: Final = 7
_FIRST_VERSION_WITH_LEADER_EPOCHS: Final = 9
_FIRST_VERSION_WITH_RACK: Final = 11
_FIRST_VERSION_WITH_IDS: Final = 13
_READ_COMMITTED: Final = 1
_UNKNOWN_TOPIC: Final = (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID)
"""With these codes Kafka's list of aborted transactions is empty; with others it is null."""
_NO_ID: Final = UUID(int=0)


class FetchReply(EncodedReply):
    """The outcomes of partitions, grouped by topic in their order."""

    __slots__ = ("_code", "_committed", "_outcomes", "_session_id", "rows")

    def __init__(
        self,
        outcomes: Sequence[FetchOutcome],
        *,
        session_id: int = NO_SESSION,
        code: int = 0,
        committed: bool = False,
    ) -> None:
        self._outcomes = outcomes
        self._session_id = session_id
        self._code = code
        self._committed = committed
        self.rows = len(outcomes)

    def segments(self, version: int, correlation_id: int, throttle_ms: int) -> Segments:
        topics = []
        for ref, outcomes in groupby(self._outcomes, lambda outcome: outcome.partition.topic):
            rows = []
            for outcome in outcomes:
                read = outcome.read
                offsets = read.offsets
                aborted = read.aborted if self._committed else None
                if outcome.code in _UNKNOWN_TOPIC:
                    aborted = ()
                preferred = -1 if outcome.preferred_replica is None else outcome.preferred_replica
                rows.append((
                    outcome.partition.partition, outcome.code, offsets.high_watermark,
                    offsets.last_stable, offsets.log_start, aborted, preferred, read.parts,
                ))  # fmt: skip
            if isinstance(ref, UUID):
                topics.append(("", ref.bytes, rows))
            else:
                topics.append((ref, _NO_ID.bytes, rows))
        return encode_fetch(
            version, correlation_id, topics,
            error_code=self._code, session_id=self._session_id, throttle_ms=throttle_ms,
        )  # fmt: skip


class ThrottledFetchReply(FetchReply):
    """No records, and a throttle time."""

    __slots__ = ("throttle_ms",)

    def __init__(self, session_id: int, throttle_ms: int) -> None:
        super().__init__((), session_id=session_id)
        self.throttle_ms = throttle_ms


def handle(services: Services, request: Any, context: RequestContext) -> Reply | Awaitable[Reply]:
    """Answer at once if memory has enough records and the partitions fit into one turn."""
    version = context.version
    by_id = version >= _FIRST_VERSION_WITH_IDS
    if _count_elements(request, version) > TURN_ELEMENTS:
        return _handle_in_turns(services, request, context)
    asked: RequestedPartitions = {}
    for topic in request.topics:
        ref = _ref(topic, by_id=by_id)
        for one in topic.partitions:
            asked[ref, one.partition] = _partition(ref, one, version)
    forgotten = [key for topic in _forgotten(request, version) for key in _keys(topic, by_id=by_id)]
    try:
        fetch = _Fetch(services, request, context, asked, forgotten)
    except SessionRefused as refusal:
        return FetchReply((), code=refusal.code)
    if len(fetch.partitions) <= TURN_ELEMENTS:
        outcomes = read_cached(services, fetch.partitions, fetch.limits)
        if outcomes is not None:
            return fetch.answer(outcomes) if fetch.suffices(outcomes) else fetch.wait(outcomes)
    return fetch.read()


async def _handle_in_turns(services: Services, request: Any, context: RequestContext) -> Reply:
    """Like ``handle``, for a request with more partitions than fit into one turn."""
    version = context.version
    by_id = version >= _FIRST_VERSION_WITH_IDS
    asked: RequestedPartitions = {}
    async for topic in in_turns(request.topics):
        ref = _ref(topic, by_id=by_id)
        async for one in in_turns(topic.partitions):
            asked[ref, one.partition] = _partition(ref, one, version)
    forgotten = [
        key
        async for topic in in_turns(_forgotten(request, version))
        for key in _keys(topic, by_id=by_id)
    ]
    try:
        fetch = _Fetch(services, request, context, asked, forgotten)
    except SessionRefused as refusal:
        return FetchReply((), code=refusal.code)
    return await fetch.read()


def _count_elements(request: Any, version: int) -> int:
    """The number of topics and partitions; counting stops above ``TURN_ELEMENTS``."""
    size = len(request.topics)
    for topic in request.topics if size <= TURN_ELEMENTS else ():
        size += len(topic.partitions)
    forgotten = _forgotten(request, version)
    size += len(forgotten)
    for topic in forgotten if size <= TURN_ELEMENTS else ():
        size += len(topic.partitions)
    return size


def _forgotten(request: Any, version: int) -> Sequence[Any]:
    """The topics that the client removes from its session."""
    if version < _FIRST_VERSION_WITH_SESSIONS:
        return ()
    topics: Sequence[Any] = request.forgotten_topics_data
    return topics


def _ref(topic: Any, *, by_id: bool) -> TopicRef:
    ref: TopicRef = (topic.topic_id or _NO_ID) if by_id else topic.topic
    return ref


def _keys(topic: Any, *, by_id: bool) -> Iterable[Key]:
    ref = _ref(topic, by_id=by_id)
    return ((ref, partition) for partition in topic.partitions)


def _partition(ref: TopicRef, one: Any, version: int) -> FetchPartition:
    return FetchPartition(
        ref,
        one.partition,
        one.fetch_offset,
        one.partition_max_bytes,
        one.current_leader_epoch if version >= _FIRST_VERSION_WITH_LEADER_EPOCHS else -1,
    )


class _Fetch:
    """One Fetch request, with its session and its limits."""

    __slots__ = ("_client_id", "_deadline", "_loop", "_min_bytes", "_new_session", "_services",
                 "_session", "limits", "partitions")  # fmt: skip

    def __init__(
        self,
        services: Services,
        request: Any,
        context: RequestContext,
        asked: RequestedPartitions,
        forgotten: Sequence[Key],
    ) -> None:
        self._services = services
        self._client_id = context.client_id
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + request.max_wait.total_seconds()
        self._min_bytes = request.min_bytes
        max_bytes = min(request.max_bytes, services.settings.fetch_max_bytes)
        if services.dynamic.quotas.active:
            allowed = services.dynamic.quotas.max_fetch_bytes(context.client_id)
            if allowed is not None:
                max_bytes = min(max_bytes, allowed)
                self._min_bytes = min(self._min_bytes, max_bytes)
        rack = (request.rack_id or None) if context.version >= _FIRST_VERSION_WITH_RACK else None
        self.limits = FetchLimits(
            max_bytes,
            request.isolation_level == _READ_COMMITTED,
            context.session,
            rack or zone_of(context.client_id),
            rack,
        )
        self._session: FetchSession | None = None
        self._new_session = False
        self.partitions: Sequence[FetchPartition] = ()
        self._open_session(request, context, asked, forgotten)

    def _open_session(
        self,
        request: Any,
        context: RequestContext,
        asked: RequestedPartitions,
        forgotten: Sequence[Key],
    ) -> None:
        """Find or create the session, and set ``partitions``. Raises ``SessionRefused``."""
        sessions, by_id = self._services.fetch_sessions, context.version >= _FIRST_VERSION_WITH_IDS
        session_id, epoch = NO_SESSION, FINAL_EPOCH
        if context.version >= _FIRST_VERSION_WITH_SESSIONS:
            session_id, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                sessions.close(session_id)
            if epoch == INITIAL_EPOCH:
                self._session = sessions.open(
                    asked.values(), by_id=by_id, peer=context.session.peer
                )
                self._new_session = True
            self.partitions = list(asked.values())
            return
        session = sessions.resume(session_id, epoch, by_id=by_id, peer=context.session.peer)
        session.update(asked.values(), forgotten)
        if session.partitions:
            sessions.updated(session)
            self._session = session
            self.partitions = list(session)
        else:
            sessions.close(session_id)

    def suffices(self, outcomes: Sequence[FetchOutcome]) -> bool:
        """Whether to answer now: enough bytes, an error, or the wait time is over."""
        size = 0
        for outcome in outcomes:
            if outcome.code or outcome.preferred_replica is not None:
                return True
            size += outcome.read.size
        return size >= self._min_bytes or not outcomes or self._loop.time() >= self._deadline

    def answer(self, outcomes: Sequence[FetchOutcome]) -> Reply:
        """The reply. In a session it has only the partitions that changed since the last reply."""
        if self._services.dynamic.quotas.active and (wait := self._over_quota(outcomes)):
            return self._throttled(wait)
        committed = self.limits.committed
        if self.limits.zone is not None:
            size = sum(outcome.read.size for outcome in outcomes)
            count_zone_bytes(self._services, self.limits.zone, size)
        session = self._session
        if session is None:
            return FetchReply(outcomes, committed=committed)
        changed = [outcome for outcome in outcomes if _record_sent(outcome) or self._new_session]
        for outcome in changed:
            session.answered(outcome.partition)
        return FetchReply(changed, session_id=session.id, committed=committed)

    def _over_quota(self, outcomes: Sequence[FetchOutcome]) -> int:
        size = sum(outcome.read.size for outcome in outcomes)
        return self._services.dynamic.quotas.charge_fetch(self._client_id, size)

    def _throttled(self, wait: int) -> Reply:
        """A reply without records. The session is unchanged: the client sends the request again."""
        session = self._session
        if session is None:
            return ThrottledFetchReply(NO_SESSION, wait)
        if self._new_session:
            self._services.fetch_sessions.close(session.id)
            return ThrottledFetchReply(NO_SESSION, wait)
        return ThrottledFetchReply(session.id, wait)

    async def read(self) -> Reply:
        """Read all partitions, and wait for changes if that does not suffice."""
        outcomes = await read_all(self._services, self.partitions, self.limits)
        return self.answer(outcomes) if self.suffices(outcomes) else await self.wait(outcomes)

    async def wait(self, outcomes: Sequence[FetchOutcome]) -> Reply:
        """Read again after each change, until the outcomes suffice or the wait time is over."""
        seen = {one.stream: one.read.offsets for one in outcomes if one.stream is not None}
        waiter = self._services.engine.waiter(seen)
        try:
            while await waiter.wait(self._deadline - self._loop.time()):
                outcomes = await read_all(self._services, self.partitions, self.limits)
                if self.suffices(outcomes):
                    break
            return self.answer(outcomes)
        finally:
            waiter.close()


def _record_sent(outcome: FetchOutcome) -> bool:
    """Whether an outcome differs from what the client knows, which it then knows."""
    partition, offsets = outcome.partition, outcome.read.offsets
    if outcome.code or outcome.preferred_replica is not None:
        partition.sent_high_watermark = -1
        return True
    changed = bool(
        outcome.read.size
        or offsets.high_watermark != partition.sent_high_watermark
        or offsets.log_start != partition.sent_log_start
    )
    partition.sent_high_watermark = offsets.high_watermark
    partition.sent_log_start = offsets.log_start
    return changed


API = Api(ApiKey.FETCH, "Fetch", handle=handle)
