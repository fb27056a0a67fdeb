"""Produce, versions 3-13 (advertised from 0, as in Kafka).

Behaviour: each partition's batch is checked (``admission``, ``record_checks``) and appended. The
reply is sent when all batches are durable, for acks=1 and acks=all alike. With acks=0 there is no
reply, and an error closes the connection, as in Kafka. Requests of one connection enter the log in
order of arrival: a request that must read the store or check a batch in a thread holds back those
behind it. A missing topic is not created, because clients send Metadata first, which creates it. If
the store does not answer, the connection closes: a later request could otherwise be appended before
this one.

Codes: CORRUPT_MESSAGE (2); UNKNOWN_TOPIC_OR_PARTITION (3); NOT_LEADER_OR_FOLLOWER (6): this broker
drains, or is not the owner while ``enforce_owner`` is set; REQUEST_TIMED_OUT (7); MESSAGE_TOO_LARGE
(10); INVALID_REQUIRED_ACKS (21): acks that are not -1, 0 or 1; TOPIC_AUTHORIZATION_FAILED (29);
INVALID_TIMESTAMP (32); OUT_OF_ORDER_SEQUENCE_NUMBER (45); INVALID_PRODUCER_EPOCH (47);
INVALID_TXN_STATE (48); TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53); KAFKA_STORAGE_ERROR (56);
UNSUPPORTED_COMPRESSION_TYPE (76); INVALID_RECORD (87); UNKNOWN_TOPIC_ID (100). A batch that leaves
a gap in its producer's sequence numbers gets 56 for one minute, because the missing batch may be in
flight at another broker, and 45 after that.

Notes by version: zstd from 7 (76 before). From 8 on the reply names the invalid records of a batch,
at most 1,000; none of its records is appended. Topic ids in place of names from 13 (100 unknown
id).

Left out: the request's time-out, because the engine's applies; transactions (48).
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
from headwater.broker.records.topic_rules import TopicRules
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
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.wire.messages.encoder import Segments
from headwater.wire.messages.replies import ProducePartition, encode_produce
from headwater.work_budget import Turn, yield_turn

log = logging.getLogger(__name__)

_FIRST_VERSION_WITH_IDS: Final = 13
_NO_ID: Final = UUID(int=0)


class ProduceReply(EncodedReply):
    """The results of all partitions, by topic."""

    __slots__ = ("_topics",)

    def __init__(self, topics: list[tuple[str, bytes, list[ProducePartition]]]) -> None:
        self._topics = topics

    def segments(self, version: int, correlation_id: int, throttle_ms: int) -> Segments:
        return [encode_produce(version, correlation_id, self._topics, throttle_ms=throttle_ms)]


def admit(
    services: Services, request: Any, context: RequestContext, done: Done
) -> Awaitable[None] | None:
    """Append the request's batches; at once if nothing must be read or checked elsewhere."""
    return _Admission(services, request, context, done).begin(request.topic_data)


class _ReplySlot:
    """The place of one partition's result in the reply."""

    __slots__ = ("index", "position", "rows")

    def __init__(self, rows: list[ProducePartition], position: int, index: int) -> None:
        self.rows = rows
        self.position = position
        self.index = index


class _Admission:
    """One Produce request. It calls ``done`` when the last partition has its result.

    It keeps no reference to the request, so that the frame can be freed after the flush.
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
        """None if all batches were appended; otherwise an awaitable of the rest."""
        work = self._allocate_slots(topic_data)
        for position, (ref, slot, records) in enumerate(work):
            pending = self._admit(ref, slot, records)
            if pending is None and self._turn.spend(_cost(records)):
                pending = yield_turn()
            if pending is not None:
                return self._admit_rest(pending, work[position + 1 :])
        self._partition_done()
        return None

    def _allocate_slots(self, topic_data: Any) -> list[tuple[str | UUID, _ReplySlot, Any]]:
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

    async def _admit_rest(
        self, pending: Awaitable[None], rest: list[tuple[str | UUID, _ReplySlot, Any]]
    ) -> None:
        try:
            await pending
            for ref, slot, records in rest:
                if (more := self._admit(ref, slot, records)) is not None:
                    await more
                if self._turn.spend(_cost(records)):
                    await yield_turn()
        except Exception:
            if self._acks != 0:
                raise
            log.exception("A Produce request with acks=0 failed")
            self._failed = True
        self._partition_done()

    def _admit(self, ref: str | UUID, slot: _ReplySlot, records: Any) -> Awaitable[None] | None:
        """Append one partition's batch; an awaitable if it must be looked up or checked first."""
        if self._acks not in (-1, 0, 1):
            self._refuse(
                slot, Code.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, not {self._acks}"
            )
            return None
        if not self._may_transact:
            code = TransactionalIdAuthorizationFailed.code
            self._refuse(slot, code, "the client is not authorized to use the transactional id")
            return None
        topics = self._services.topics
        try:
            topic = topics.cached(self._session, ref, slot.index, Operation.WRITE)
        except TopicAuthorizationFailed as error:
            self._refuse_with(slot, error)
            return None
        if topic is None:
            return self._look_up_and_admit(ref, slot, records)
        return self._admit_to(topic, slot, records)

    async def _look_up_and_admit(self, ref: str | UUID, slot: _ReplySlot, records: Any) -> None:
        """Read the topic from the store, because the cache may lag, and append the batch."""
        topics = self._services.topics
        try:
            topic = await topics.find(self._session, ref, Operation.WRITE, partition=slot.index)
            check_partition(topic, slot.index)
        except KafkaError as error:
            self._refuse(slot, error.code, str(error))
            self._closes = self._closes or error.code == KafkaStorageError.code
            return
        if (pending := self._admit_to(topic, slot, records)) is not None:
            await pending

    def _admit_to(self, topic: Topic, slot: _ReplySlot, records: Any) -> Awaitable[None] | None:
        services = self._services
        try:
            rules = services.topic_rules.rules(topic, services.dynamic.brokers.topic_defaults)
            batch = admit_records(records, rules, self._version, services.clock.now_ms())
            try:
                check_served_here(
                    services, topic.streams[slot.index], self._zone, self._session.listener
                )
            except NotLeaderOrFollower:
                services.engine.note_rejected(topic, slot.index, (batch,))
                raise
            if batch.is_transactional or self._transactional:
                self._refuse(slot, Code.INVALID_TXN_STATE, "transactions are not supported yet")
                return None
            checked = services.records.check(batch, rules, services.clock.now_ms())
            if not isinstance(checked, Batch):
                return self._append_checked(topic, slot, checked, rules)
            self._append(topic, slot, checked, rules)
        except KafkaError as error:
            self._refuse_with(slot, error)
        return None

    async def _append_checked(
        self, topic: Topic, slot: _ReplySlot, checking: Awaitable[Batch], rules: TopicRules
    ) -> None:
        try:
            self._append(topic, slot, await checking, rules)
        except KafkaError as error:
            self._refuse_with(slot, error)

    def _append(self, topic: Topic, slot: _ReplySlot, batch: Batch, rules: TopicRules) -> None:
        future = self._services.engine.append(topic, slot.index, (batch,))
        if self._zone is not None:
            count_zone_bytes(self._services, self._zone, batch.size)
        self._left += 1
        future.add_done_callback(partial(self._appended, slot, rules))

    def _appended(
        self,
        slot: _ReplySlot,
        rules: TopicRules,
        future: asyncio.Future[Appended],
    ) -> None:
        error = None if future.cancelled() else future.exception()
        if future.cancelled():
            self._refuse(slot, RequestTimedOut.code, "the broker is stopping")
        elif isinstance(error, KafkaError):
            self._refuse(slot, error.code, str(error))
        elif error is not None:
            log.error("An append failed", exc_info=error)
            self._refuse(slot, Code.UNKNOWN_SERVER_ERROR, "the broker failed; see its log")
        else:
            appended = future.result()
            time = appended.log_append_time_ms if rules.append_time else -1
            slot.rows[slot.position] = (
                slot.index, 0, appended.base_offset, time, appended.log_start, (), None,
            )  # fmt: skip
        self._partition_done()

    def _refuse_with(self, slot: _ReplySlot, error: KafkaError) -> None:
        record_errors = error.record_errors if isinstance(error, RefusedRecords) else ()
        self._refuse(slot, error.code, str(error), record_errors)

    def _refuse(
        self,
        slot: _ReplySlot,
        code: int,
        message: str,
        record_errors: Sequence[tuple[int, str]] = (),
    ) -> None:
        self._failed = True
        slot.rows[slot.position] = (
            slot.index, code, -1, -1, -1, record_errors, message,
        )  # fmt: skip

    def _partition_done(self) -> None:
        """Count a partition, or the end of the admission, and reply after the last one."""
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
    """What a batch costs of a turn of the loop: 4 KiB cost one element."""
    return 1 + len(records or b"") // 4096


API = Api(ApiKey.PRODUCE, "Produce", admit=admit)
