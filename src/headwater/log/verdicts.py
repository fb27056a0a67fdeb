"""From a commit's outcome to each producer's answer."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from headwater.engine import Appended
from headwater.errors import (
    InvalidProducerEpoch,
    KafkaError,
    KafkaStorageError,
    OutOfOrderSequence,
    UnknownTopicOrPartition,
)
from headwater.log.formats import StreamCommit
from headwater.log.judge import DUPLICATE
from headwater.log.sequence_gaps import SequenceGaps
from headwater.wire.batch import LOG_APPEND_TIME, Batch

logger = logging.getLogger(__name__)

NO_TIMESTAMP = -1


class WaitingAppend(Protocol):
    @property
    def batches(self) -> int: ...
    @property
    def done(self) -> asyncio.Future[Appended]: ...


def settle(
    waiting: Sequence[WaitingAppend],
    batches: Sequence[Batch],
    commit: StreamCommit,
    log_start: int,
    gaps: SequenceGaps,
) -> None:
    """Answer the appends of one stream, in the order in which they were made.

    An append of several batches fails if one of them was refused. A batch whose gap is excused
    gets an error that may be retried.
    """
    offset = commit.start
    verdicts = {number: (code, known) for number, code, known in commit.verdicts}
    number = 0
    for one in waiting:
        base_offset = -1
        error: KafkaError | None = None
        first = batches[number]
        for batch in batches[number : number + one.batches]:
            code, known = verdicts.get(number, (0, offset))
            if code in (0, DUPLICATE):
                base_offset = known if base_offset < 0 else base_offset
                gaps.arrived(commit.stream, batch)
            elif code == OutOfOrderSequence.code and gaps.excuses(commit.stream, batch):
                error = error or KafkaStorageError(f"{_who(batch)}: an earlier batch is missing")
            else:
                error = error or _error(code, batch)
                logger.info("a batch for stream %d was refused: %s", commit.stream, error)
            if code == 0:
                offset += batch.count
            number += 1
        if one.done.done():
            continue
        if error is not None:
            one.done.set_exception(error)
        else:
            stamped = first.attributes & LOG_APPEND_TIME
            one.done.set_result(
                Appended(base_offset, first.max_timestamp if stamped else NO_TIMESTAMP, log_start)
            )


def _error(code: int, batch: Batch) -> KafkaError:
    who = _who(batch)
    match code:
        case UnknownTopicOrPartition.code:
            return UnknownTopicOrPartition("the topic was deleted")
        case InvalidProducerEpoch.code:
            return InvalidProducerEpoch(f"{who}: a newer epoch has written to this partition")
        case _:
            return OutOfOrderSequence(
                f"{who}: sequence {batch.base_sequence} does not follow the last one"
            )


def _who(batch: Batch) -> str:
    return f"producer {batch.producer_id} epoch {batch.producer_epoch}"
