"""From a commit's outcome to each producer's answer."""

import asyncio
import logging
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeVar

from headwater.engine import Appended
from headwater.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    KafkaError,
    KafkaStorageError,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from headwater.log.append.judge import DUPLICATE
from headwater.log.append.sequence_gaps import SequenceGaps
from headwater.log.commit_subscribers import CommittedChunk
from headwater.log.formats.metadata_values import StreamCommit
from headwater.log.read.streams import Streams
from headwater.wire.batches.batch import LOG_APPEND_TIME, Batch
from headwater.work_budget import TURN_ELEMENTS

logger = logging.getLogger(__name__)

NO_TIMESTAMP = -1


class WaitingAppend(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def batches(self) -> int: ...
    @property
    def done(self) -> asyncio.Future[Appended]: ...


W = TypeVar("W", bound=WaitingAppend)


class Answer(NamedTuple):
    """What became of an append, of which nobody was told yet."""

    number: int
    done: asyncio.Future[Appended]
    outcome: Appended | KafkaError

    def give(self) -> None:
        if self.done.done():
            return
        if isinstance(self.outcome, Appended):
            self.done.set_result(self.outcome)
        else:
            self.done.set_exception(self.outcome)


def give(answers: list[Answer]) -> None:
    """Give all answers, the oldest append's first, ``TURN_ELEMENTS`` in a turn of the loop."""
    answers.sort(key=attrgetter("number"))
    _give_from(answers, 0)


def _give_from(answers: Sequence[Answer], first: int) -> None:
    after = first + TURN_ELEMENTS
    for answer in answers[first:after]:
        answer.give()
    if after < len(answers):
        asyncio.get_running_loop().call_soon(_give_from, answers, after)


def settle_part(
    landed: Sequence[CommittedChunk],
    streams: Streams,
    waiting: dict[int, list[W]],
    gaps: SequenceGaps,
) -> list[Answer]:
    """The answers to the appends of one part; they are taken out of ``waiting``."""
    answers: list[Answer] = []
    for each in landed:
        stream = each.chunk.stream
        log_start = streams[stream].log_start
        answers += settle(waiting[stream], each.chunk.batches, each.commit, log_start, gaps)
    for each in landed:
        del waiting[each.chunk.stream]  # nobody else answers them
    return answers


def settle(
    waiting: Sequence[WaitingAppend],
    batches: Sequence[Batch],
    commit: StreamCommit,
    log_start: int,
    gaps: SequenceGaps,
) -> list[Answer]:
    """The answers to the appends of one stream.

    An append of several batches fails if one of them was refused. A batch whose gap is excused
    gets an error that may be retried.
    """
    if not commit.verdicts:
        return _all_appended(waiting, batches, commit, log_start, gaps)
    answers: list[Answer] = []
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
            elif code == OutOfOrderSequence.code and gaps.excuses(commit.stream, batch, known):
                error = error or KafkaStorageError(f"{_who(batch)}: an earlier batch is missing")
            else:
                error = error or _error(code, batch)
                logger.info("a batch for stream %d was refused: %s", commit.stream, error)
            if code == 0:
                offset += batch.count
            number += 1
        outcome: Appended | KafkaError | None = error
        if outcome is None:
            outcome = Appended(base_offset, _append_time(first), log_start)
        answers.append(Answer(one.number, one.done, outcome))
    return answers


def _all_appended(
    waiting: Sequence[WaitingAppend],
    batches: Sequence[Batch],
    commit: StreamCommit,
    log_start: int,
    gaps: SequenceGaps,
) -> list[Answer]:
    """The same where no batch was refused or there before, as almost always."""
    if gaps.any:
        for batch in batches:
            gaps.arrived(commit.stream, batch)
    answers: list[Answer] = []
    offset = commit.start
    number = 0
    for one in waiting:
        appended = Appended(offset, _append_time(batches[number]), log_start)
        answers.append(Answer(one.number, one.done, appended))
        for batch in batches[number : number + one.batches]:
            offset += batch.count
        number += one.batches
    return answers


def _append_time(batch: Batch) -> int:
    return batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else NO_TIMESTAMP


def _error(code: int, batch: Batch) -> KafkaError:
    who = _who(batch)
    match code:
        case UnknownTopicOrPartition.code:
            return UnknownTopicOrPartition("the topic was deleted")
        case InvalidProducerEpoch.code:
            return InvalidProducerEpoch(f"{who}: a newer epoch has written to this partition")
        case InvalidTxnState.code:
            return InvalidTxnState(f"{who}: a transaction is open, and the batch is not part of it")
        case TransactionCoordinatorFenced.code:
            return TransactionCoordinatorFenced(
                f"{who}: a newer coordinator has ended transactions"
            )
        case InvalidRecord.code:
            return InvalidRecord(f"{who}: a control batch without a transaction marker")
        case _:
            return OutOfOrderSequence(
                f"{who}: sequence {batch.base_sequence} does not follow the last one"
            )


def _who(batch: Batch) -> str:
    return f"producer {batch.producer_id} epoch {batch.producer_epoch}"
