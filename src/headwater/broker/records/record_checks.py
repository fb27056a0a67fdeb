"""Checks the records of a produced batch before it is acknowledged.

- The header and its CRC are always checked, and that the records fit into its bytes
  (``admission``).
- With the extra ``table`` every record is checked: its lengths, offset delta and timestamp, and
  its key if the topic is compacted.
- Without that extra only the lengths of the first 100 records are checked. Every record is checked
  if the topic is compacted, or if the header's timestamps are out of bounds.

Compressed batches are decompressed for this. Small batches are checked on the event loop, up to
``TURN_BYTES`` in one turn. All others are checked in the threads of ``RecordWork``, within its
memory limits. A compressed batch may hold ``MAX_UNCOMPRESSED`` bytes, or twice its own size.
Kafka has no such limit; the reply is MESSAGE_TOO_LARGE, after which Java's producer splits the
batch.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, NamedTuple

from headwater.broker.records.admission import check_size, time_limits, within
from headwater.broker.records.topic_rules import TopicRules
from headwater.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge
from headwater.log.record_work import RecordWork
from headwater.wire.batches.batch import Batch, records_of
from headwater.wire.batches.codecs import Codec, decompress_start
from headwater.wire.batches.record_walk import (
    CUT,
    FAULTY,
    MALFORMED,
    OUT_OF_TIME,
    RecordLimits,
    Walk,
    Walked,
    check_end,
    end_of_record,
    walk,
    walk_lengths,
)
from headwater.wire.batches.records import recompress, with_max_timestamp
from headwater.work_budget import TURN_BYTES, needs_thread

MIB: Final = 1024 * 1024
MAX_UNCOMPRESSED: Final = 64 * MIB
MAX_RECORDS: Final = 2**20
"""Most records of one batch: more than any client sends, and few enough for plain Python."""
SMALL_BATCH_BYTES: Final = 16 * 1024
"""A compressed batch up to this size is first decompressed on the loop, up to ``SCRATCH_BYTES``."""
SCRATCH_BYTES: Final = 64 * 1024
_RECORD_COST_BYTES: Final = 16
"""Checking one record costs about as much as decompressing this many bytes."""
_MAX_LISTED_RECORDS: Final = 3
_START: Final = Walked()


class _CheckPlan(NamedTuple):
    """How one batch is checked."""

    batch: Batch
    rules: TopicRules
    limits: RecordLimits
    walk: Walk
    walks_all: bool


class RecordChecks:
    """Checks small batches on the loop, and all others in threads."""

    def __init__(self, work: RecordWork) -> None:
        self._work = work
        self._turn_left = TURN_BYTES

    def check(self, batch: Batch, rules: TopicRules, now_ms: int) -> Batch | Awaitable[Batch]:
        """The batch to store, or an awaitable of it.

        Both raise the ``KafkaError`` for the reply.
        """
        if batch.count > MAX_RECORDS:
            raise MessageTooLarge(
                f"a batch has {batch.count} records; at most {MAX_RECORDS} are allowed"
            )
        plan = self._plan(batch, rules, now_ms)
        check = BatchCheck(plan)
        recompresses = rules.codec is not None and rules.codec != batch.codec
        cost = batch.count * _RECORD_COST_BYTES if plan.walks_all else 0
        slow_walk = plan.walks_all and not self._work.walks_all
        if recompresses or slow_walk or needs_thread(cost):
            return self._in_thread(check)
        if batch.codec == Codec.NONE:
            return check.finish(records_of(batch))
        if batch.size <= SMALL_BATCH_BYTES and self._turn_has_room():
            checked = check.decompress(SCRATCH_BYTES)
            if checked is not None:
                return checked
        return self._in_thread(check)

    def _plan(self, batch: Batch, rules: TopicRules, now_ms: int) -> _CheckPlan:
        earliest, latest = time_limits(rules, now_ms)
        limits = RecordLimits(batch.count, rules.compacted, earliest, latest)
        if self._work.walks_all:
            return _CheckPlan(batch, rules, limits, self._work.walk, True)  # noqa: FBT003
        # The header's timestamps are trusted if they are in bounds.
        walks_all = rules.compacted or not within(batch, earliest, latest)
        return _CheckPlan(batch, rules, limits, walk if walks_all else walk_lengths, walks_all)

    def _turn_has_room(self) -> bool:
        """Count one decompression on the loop; False if this turn has no bytes left for it."""
        if self._turn_left == TURN_BYTES:
            asyncio.get_running_loop().call_soon(self._next_turn)
        if self._turn_left < SCRATCH_BYTES:
            return False
        self._turn_left -= SCRATCH_BYTES
        return True

    def _next_turn(self) -> None:
        self._turn_left = TURN_BYTES

    async def _in_thread(self, check: "BatchCheck") -> Batch:
        # Two copies: the blocks of a snappy batch are joined, and a recompressed batch is copied.
        size = check.plan.batch.size
        return await self._work.run(check.decompress, size, check.max_bytes, copies=2)


class BatchCheck:
    """The check of one batch. A further attempt with more bytes resumes where the last ended."""

    __slots__ = ("_walked", "plan")

    def __init__(self, plan: _CheckPlan) -> None:
        self.plan = plan
        self._walked = _START

    @property
    def max_bytes(self) -> int:
        """Most bytes that the decompressed records may have."""
        return max(MAX_UNCOMPRESSED, 2 * self.plan.batch.size)

    def decompress(self, limit: int) -> Batch | None:
        """Decompress up to ``limit`` bytes and check them; None if the records need more."""
        batch = self.plan.batch
        try:
            payload, whole = decompress_start(batch.codec, records_of(batch), limit)
        except CorruptMessage as error:
            # Not CORRUPT_MESSAGE: the CRC is right, and the client would send the same again.
            raise InvalidRecord(str(error)) from None
        if whole:
            return self.finish(payload)
        self._walk(payload, whole=False)
        end = end_of_record(payload, self._walked.position)
        if end > self.max_bytes:
            raise MessageTooLarge(f"the records of a batch are larger than {self.max_bytes} bytes")
        return None

    def finish(self, payload: memoryview) -> Batch:
        """Check all records. Returns the batch to store, recompressed if the topic says so."""
        self._walk(payload, whole=True)
        plan, batch = self.plan, self.plan.batch
        if plan.walks_all and not plan.rules.append_time:
            batch = with_max_timestamp(batch, self._walked.largest)
        codec = plan.rules.codec
        if codec is None or codec == batch.codec:
            return batch
        recompressed = recompress(batch, codec, payload)
        check_size(recompressed, plan.rules)
        return recompressed

    def _walk(self, payload: memoryview, *, whole: bool) -> None:
        """Check the records in ``payload`` that were not checked before.

        Raises ``InvalidRecord`` or ``InvalidTimestamp``.
        """
        plan = self.plan
        size = len(payload)
        walked = plan.walk(payload, size, self._walked, plan.batch.base_timestamp, plan.limits)
        self._walked = walked
        if walked.status == MALFORMED or (walked.status == CUT and whole):
            raise InvalidRecord(f"record {walked.number} is malformed")
        if walked.faults and (whole or walked.status == FAULTY):
            raise _refusal(plan, walked.faults)
        if whole:
            check_end(walked, size, plan.limits)


def _refusal(plan: _CheckPlan, faults: tuple[int, ...]) -> InvalidRecord | InvalidTimestamp:
    """The error that names each invalid record, so that the client can send the others again."""
    limits = plan.limits
    out_of_time = f"its timestamp is not within [{limits.earliest}, {limits.latest}]"
    messages = ("a record of a compacted topic needs a key", out_of_time)
    errors = [(fault // 2, messages[fault % 2]) for fault in faults]
    listed = "; ".join(
        f"record {index}: {message}" for index, message in errors[:_MAX_LISTED_RECORDS]
    )
    kind = InvalidTimestamp if any(fault % 2 == OUT_OF_TIME for fault in faults) else InvalidRecord
    return kind(f"{len(errors)} records of the batch are invalid: {listed}", errors)
