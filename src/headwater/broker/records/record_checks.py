"""Whether a produced batch holds records that its topic takes, before it is acknowledged.

What is checked when:

- The header and its CRC always, and that its bytes can hold as many records as it counts
  (``admission``).
- With the extra ``table`` every record of every batch: its lengths, offset delta, timestamp, and
  its key if the topic is compacted.
- Without it the lengths of the first 100 records; every record only if the topic is compacted or
  the header's timestamps are out of bounds.

A batch that is compressed is decompressed for this. Batches with little work are checked on the
event loop, up to ``TURN_BYTES`` in one turn of it; all others in ``RecordWork``'s threads and
bounds. A compressed batch may hold ``MAX_UNCOMPRESSED`` bytes, or twice its own size; Kafka has
no such limit, and the answer is the one after which Java's producer splits its batch.
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
"""Records of one batch: more than any client sends, few enough to be walked in plain Python."""
SMALL: Final = 16 * 1024
"""A compressed batch of this size is opened on the loop if its records fit ``SCRATCH`` bytes."""
SCRATCH: Final = 64 * 1024
_WALK_COST: Final = 16
"""A record that is walked costs as much as so many bytes."""
_MOST_SHOWN: Final = 3
_START: Final = Walked()


class _Check(NamedTuple):
    """How one batch is checked."""

    batch: Batch
    rules: TopicRules
    limits: RecordLimits
    walk: Walk
    walks_all: bool


class RecordChecks:
    """Checks batches on the loop while that is cheap, and in threads."""

    def __init__(self, work: RecordWork) -> None:
        self._work = work
        self._turn_left = TURN_BYTES

    def check(self, batch: Batch, rules: TopicRules, now_ms: int) -> Batch | Awaitable[Batch]:
        """The batch as it is to be stored, or what to wait for.

        Raises the ``KafkaError`` that the client gets, and so does what is awaited.
        """
        if batch.count > MAX_RECORDS:
            raise MessageTooLarge(f"a batch of {batch.count} records, {MAX_RECORDS} at most")
        check = self._check(batch, rules, now_ms)
        opening = Opening(check)
        recodes = rules.codec is not None and rules.codec != batch.codec
        cost = batch.count * _WALK_COST if check.walks_all else 0
        slow_walk = check.walks_all and not self._work.walks_all
        if recodes or slow_walk or needs_thread(cost):
            return self._in_thread(opening)
        if batch.codec == Codec.NONE:
            return opening.finish(records_of(batch))
        if batch.size <= SMALL and self._turn_has_room():
            done = opening.open(SCRATCH)
            if done is not None:
                return done
        return self._in_thread(opening)

    def _check(self, batch: Batch, rules: TopicRules, now_ms: int) -> _Check:
        earliest, latest = time_limits(rules, now_ms)
        limits = RecordLimits(batch.count, rules.compacted, earliest, latest)
        if self._work.walks_all:
            return _Check(batch, rules, limits, self._work.walk, True)  # noqa: FBT003
        # What the header says of timestamps is believed unless it is out of bounds.
        walks_all = rules.compacted or not within(batch, earliest, latest)
        return _Check(batch, rules, limits, walk if walks_all else walk_lengths, walks_all)

    def _turn_has_room(self) -> bool:
        """Count one opening on the loop; False if this turn of it has done enough."""
        if self._turn_left == TURN_BYTES:
            asyncio.get_running_loop().call_soon(self._next_turn)
        if self._turn_left < SCRATCH:
            return False
        self._turn_left -= SCRATCH
        return True

    def _next_turn(self) -> None:
        self._turn_left = TURN_BYTES

    async def _in_thread(self, opening: "Opening") -> Batch:
        # Snappy's blocks are joined, and what is recoded is copied.
        size = opening.check.batch.size
        return await self._work.run(opening.open, size, opening.most, copies=2)


class Opening:
    """One batch on its way through a check; each try goes on where the last one ended."""

    __slots__ = ("_walked", "check")

    def __init__(self, check: _Check) -> None:
        self.check = check
        self._walked = _START

    @property
    def most(self) -> int:
        """The bytes that its records may have when they are decompressed."""
        return max(MAX_UNCOMPRESSED, 2 * self.check.batch.size)

    def open(self, room: int) -> Batch | None:
        """Check the batch in so many bytes; None if its records need more."""
        batch = self.check.batch
        try:
            payload, whole = decompress_start(batch.codec, records_of(batch), room)
        except CorruptMessage as error:
            # Its CRC is right, so the client would send the same again.
            raise InvalidRecord(str(error)) from None
        if whole:
            return self.finish(payload)
        self._go_on(payload, whole=False)
        end = end_of_record(payload, self._walked.position)
        if end > self.most:
            raise MessageTooLarge(f"the records of a batch are larger than {self.most} bytes")
        return None

    def finish(self, payload: memoryview) -> Batch:
        """Check all records, and make of the batch what its topic wants."""
        self._go_on(payload, whole=True)
        check, batch = self.check, self.check.batch
        if check.walks_all and not check.rules.append_time:
            batch = with_max_timestamp(batch, self._walked.largest)
        codec = check.rules.codec
        if codec is None or codec == batch.codec:
            return batch
        recoded = recompress(batch, codec, payload)
        check_size(recoded, check.rules)
        return recoded

    def _go_on(self, payload: memoryview, *, whole: bool) -> None:
        """Raises ``InvalidRecord`` or ``InvalidTimestamp`` at the first part that is wrong."""
        check = self.check
        size = len(payload)
        walked = check.walk(payload, size, self._walked, check.batch.base_timestamp, check.limits)
        self._walked = walked
        if walked.status == MALFORMED or (walked.status == CUT and whole):
            raise InvalidRecord(f"record {walked.number} is malformed")
        if walked.faults and (whole or walked.status == FAULTY):
            raise _refusal(check, walked.faults)
        if whole:
            check_end(walked, size, check.limits)


def _refusal(check: _Check, faults: tuple[int, ...]) -> InvalidRecord | InvalidTimestamp:
    """The error that names each record at fault; the others of the batch may be sent again."""
    limits = check.limits
    out_of_time = f"its timestamp is not within [{limits.earliest}, {limits.latest}]"
    messages = ("a compacted topic takes no record without a key", out_of_time)
    errors = [(fault // 2, messages[fault % 2]) for fault in faults]
    shown = "; ".join(f"record {index}: {message}" for index, message in errors[:_MOST_SHOWN])
    kind = InvalidTimestamp if any(fault % 2 == OUT_OF_TIME for fault in faults) else InvalidRecord
    return kind(f"{len(errors)} records of the batch are refused: {shown}", errors)
