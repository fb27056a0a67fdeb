"""Produce, versions 3-13 (advertised from 0, as Kafka does).

Behaviour: each partition's batch is checked (``admission``, ``record_checks``) and appended; the
answer goes out when it is durable, for acks=1 and acks=all alike. With acks=0 there is no answer,
and an error closes the connection, as in Kafka. Acks of another value are refused with 21.
Requests of one connection enter the log in order of arrival: whatever must wait (a topic that
is not known yet, a batch that must be decoded) holds back the requests behind it.

Notes by version: zstd from 7 (76 before), topic ids in place of names from 13 (100 where there
is none). A topic or partition that is not known is looked up in the store, and not created:
clients ask for metadata first, which creates it. Where the store does not answer, the connection
is closed: the request behind might find the topic, and be taken for its producer's first. A broker
that drains answers 6, and so does one that is not the owner where ``enforce_owner`` is set; clients
go on elsewhere. A batch of an idempotent producer that leaves a gap gets 56 for a minute, as the
one in front may be under way at another broker, and 45 from then on.

A batch is refused as a whole. From 8 on the answer names the records that are at fault (the first
1,000): those without a key on a compacted topic, and those whose timestamp is out of bounds.

Left out: the request's own time-out (the engine's holds); transactions, whose batches get 48.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.cluster.ownership import check_served_here, count_zone_bytes
from headwater.broker.cluster.zones import zone_of
from headwater.broker.network.dispatch import Api, Done
from headwater.broker.network.replies import EncodedReply, NoReply
from headwater.broker.records.admission import admit_records
from headwater.broker.records.topic_rules import TopicRules, TopicRulesCache
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.access import check_partition
from headwater.engine import Appended, Topic
from headwater.errors import (
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    RefusedRecords,
    RequestTimedOut,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from headwater.wire.batches.batch import Batch
from headwater.wire.messages.api_versions import ApiKey
from headwater.wire.messages.encoder import Segments
from headwater.wire.messages.replies import ProducePartition, encode_produce
from headwater.work_budget import Turn, yield_turn

log = logging.getLogger(__name__)

_UNKNOWN_SERVER_ERROR: Final = -1
_INVALID_REQUIRED_ACKS: Final = 21
_INVALID_TXN_STATE: Final = 48
_FIRST_VERSION_WITH_IDS: Final = 13
_NO_ID: Final = UUID(int=0)

_rules = TopicRulesCache()


class ProduceReply(EncodedReply):
    """Topics as rows."""

    __slots__ = ("_topics",)

    def __init__(self, topics: list[tuple[str, bytes, list[ProducePartition]]]) -> None:
        self._topics = topics

    def segments(self, version: int, correlation_id: int, throttle_ms: int) -> Segments:
        return [encode_produce(version, correlation_id, self._topics, throttle_ms=throttle_ms)]


def admit(
    services: Services, request: Any, context: RequestContext, done: Done
) -> Awaitable[None] | None:
    """Append what the request holds, at once where nothing must be waited for."""
    return _Admission(services, request, context, done).begin(request.topic_data)


class _ReplySlot:
    """Where one partition's answer goes."""

    __slots__ = ("index", "position", "rows")

    def __init__(self, rows: list[ProducePartition], position: int, index: int) -> None:
        self.rows = rows
        self.position = position
        self.index = index


class _Admission:
    """One request on its way into the log; it answers when its last partition has landed.

    It does not keep the request: its frame goes as soon as the log has no more of it.
    """

    __slots__ = ("_acks", "_closes", "_done", "_failed", "_left", "_may_transact", "_services",
                 "_session", "_topics", "_transactional", "_turn", "_version", "_zone")  # fmt: skip

    def __init__(
        self, services: Services, request: Any, context: RequestContext, done: Done
    ) -> None:
        self._services = services
        self._transactional = request.transactional_id is not None
        self._version = context.version
        self._zone = zone_of(context.client_id)
        self._session = context.session
        self._may_transact = not self._transactional or services.authorizer.allows(
            context.session, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id
        )
        self._acks = request.acks
        self._done = done
        self._turn = Turn()
        self._left = 1
        self._failed = False
        self._closes = False
        self._topics: list[tuple[str, bytes, list[ProducePartition]]] = []

    def begin(self, topic_data: Any) -> Awaitable[None] | None:
        """None where everything entered the log; otherwise what to wait for."""
        work = self._lay_out(topic_data)
        for position, (ref, place, records) in enumerate(work):
            slow = self._take(ref, place, records)
            if slow is None and self._turn.spend(_cost(records)):
                slow = yield_turn()
            if slow is not None:
                return self._go_on(slow, work[position + 1 :])
        self._one_less()
        return None

    def _lay_out(self, topic_data: Any) -> list[tuple[str | UUID, _ReplySlot, Any]]:
        by_id = self._version >= _FIRST_VERSION_WITH_IDS
        work = []
        for asked in topic_data:
            name, topic_id = ("", asked.topic_id or _NO_ID) if by_id else (asked.name, _NO_ID)
            rows: list[ProducePartition] = []
            for position, data in enumerate(asked.partition_data):
                rows.append((data.index, 0, -1, -1, -1, (), None))
                ref = topic_id if by_id else name
                work.append((ref, _ReplySlot(rows, position, data.index), data.records))
            self._topics.append((name, topic_id.bytes, rows))
        return work

    async def _go_on(
        self, slow: Awaitable[None], rest: list[tuple[str | UUID, _ReplySlot, Any]]
    ) -> None:
        try:
            await slow
            for ref, place, records in rest:
                if (more := self._take(ref, place, records)) is not None:
                    await more
                if self._turn.spend(_cost(records)):
                    await yield_turn()
        except Exception:
            if self._acks != 0:
                raise
            log.exception("a produce request without acknowledgement failed")
            self._failed = True
        self._one_less()

    def _take(self, ref: str | UUID, place: _ReplySlot, records: Any) -> Awaitable[None] | None:
        if self._acks not in (-1, 0, 1):
            self._refuse(
                place, _INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, not {self._acks}"
            )
            return None
        if not self._may_transact:
            code = TransactionalIdAuthorizationFailed.code
            self._refuse(place, code, "the transactional id may not be used")
            return None
        topics = self._services.topics
        try:
            topic = topics.cached(self._session, ref, place.index, Operation.WRITE)
        except TopicAuthorizationFailed as error:
            self._refuse_for(place, error)
            return None
        if topic is None:
            return self._take_unknown(ref, place, records)
        return self._take_known(topic, place, records)

    async def _take_unknown(self, ref: str | UUID, place: _ReplySlot, records: Any) -> None:
        """The cache may lag: ask the store before saying that there is no such thing."""
        topics = self._services.topics
        try:
            topic = await topics.find(self._session, ref, Operation.WRITE, partition=place.index)
            check_partition(topic, place.index)
        except KafkaError as error:
            self._refuse(place, error.code, str(error))
            self._closes = self._closes or error.code == KafkaStorageError.code
            return
        if (slow := self._take_known(topic, place, records)) is not None:
            await slow

    def _take_known(self, topic: Topic, place: _ReplySlot, records: Any) -> Awaitable[None] | None:
        services = self._services
        try:
            rules = _rules.rules(topic, services.dynamic.brokers.topic_defaults)
            batch = admit_records(records, rules, self._version, services.clock.now_ms())
            try:
                check_served_here(
                    services, topic.streams[place.index], self._zone, self._session.listener
                )
            except NotLeaderOrFollower:
                services.engine.note_rejected(topic, place.index, (batch,))
                raise
            if batch.is_transactional or self._transactional:
                self._refuse(place, _INVALID_TXN_STATE, "transactions are not supported yet")
                return None
            checked = services.records.check(batch, rules, services.clock.now_ms())
            if not isinstance(checked, Batch):
                return self._take_checked(topic, place, checked, rules)
            self._append(topic, place, checked, rules)
        except KafkaError as error:
            self._refuse_for(place, error)
        return None

    async def _take_checked(
        self, topic: Topic, place: _ReplySlot, checking: Awaitable[Batch], rules: TopicRules
    ) -> None:
        try:
            self._append(topic, place, await checking, rules)
        except KafkaError as error:
            self._refuse_for(place, error)

    def _append(self, topic: Topic, place: _ReplySlot, batch: Batch, rules: TopicRules) -> None:
        future = self._services.engine.append(topic, place.index, (batch,))
        if self._zone is not None:
            count_zone_bytes(self._services, self._zone, batch.size)
        self._left += 1
        future.add_done_callback(partial(self._landed, place, rules))

    def _landed(
        self,
        place: _ReplySlot,
        rules: TopicRules,
        future: asyncio.Future[Appended],
    ) -> None:
        error = None if future.cancelled() else future.exception()
        if future.cancelled():
            self._refuse(place, RequestTimedOut.code, "the broker is stopping")
        elif isinstance(error, KafkaError):
            self._refuse(place, error.code, str(error))
        elif error is not None:
            log.error("an append failed", exc_info=error)
            self._refuse(place, _UNKNOWN_SERVER_ERROR, "the broker failed; its log says how")
        else:
            landed = future.result()
            time = landed.log_append_time_ms if rules.append_time else -1
            place.rows[place.position] = (
                place.index, 0, landed.base_offset, time, landed.log_start, (), None,
            )  # fmt: skip
        self._one_less()

    def _refuse_for(self, place: _ReplySlot, error: KafkaError) -> None:
        record_errors = error.record_errors if isinstance(error, RefusedRecords) else ()
        self._refuse(place, error.code, str(error), record_errors)

    def _refuse(
        self,
        place: _ReplySlot,
        code: int,
        message: str,
        record_errors: Sequence[tuple[int, str]] = (),
    ) -> None:
        self._failed = True
        place.rows[place.position] = (
            place.index, code, -1, -1, -1, record_errors, message,
        )  # fmt: skip

    def _one_less(self) -> None:
        self._left -= 1
        if self._left:
            return
        if self._closes or (self._acks == 0 and self._failed):
            self._done(NoReply.CLOSE)
        elif self._acks == 0:
            self._done(NoReply.SILENT)
        else:
            self._done(ProduceReply(self._topics))


def _cost(records: memoryview | None) -> int:
    """What a partition's batch takes of a turn of the loop: 4 KiB are one element."""
    return 1 + len(records or b"") // 4096


API = Api(ApiKey.PRODUCE, "Produce", admit=admit)
