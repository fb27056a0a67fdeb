"""From a commit's outcome to the answer of each append."""

import asyncio
import logging
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

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
from headwater.log.append.write_buffer import PendingAppend
from headwater.log.commit_subscribers import CommittedChunk
from headwater.log.formats.metadata_values import StreamCommit
from headwater.log.read.streams import Streams
from headwater.wire.batches.batch import LOG_APPEND_TIME, Batch
from headwater.work_budget import TURN_ELEMENTS

logger = logging.getLogger(__name__)

NO_TIMESTAMP = -1


class AppendAnswer(NamedTuple):
    """The outcome of an append, and the future to resolve with it."""

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


def give_answers(answers: list[AppendAnswer]) -> None:
    """Give all answers, oldest append first, ``TURN_ELEMENTS`` in each turn of the loop."""
    answers.sort(key=attrgetter("number"))
    _give_from(answers, 0)


def _give_from(answers: Sequence[AppendAnswer], first: int) -> None:
    after = first + TURN_ELEMENTS
    for answer in answers[first:after]:
        answer.give()
    if after < len(answers):
        asyncio.get_running_loop().call_soon(_give_from, answers, after)


def answers_of_part(
    landed: Sequence[CommittedChunk],
    streams: Streams,
    pending: dict[int, list[PendingAppend]],
    gaps: SequenceGaps,
) -> list[AppendAnswer]:
    """The answers to the appends of one part; the appends are removed from ``pending``."""
    answers: list[AppendAnswer] = []
    for each in landed:
        stream = each.chunk.stream
        log_start = streams[stream].log_start
        answers += answers_of_stream(
            pending[stream], each.chunk.batches, each.commit, log_start, gaps
        )
    for each in landed:
        del pending[each.chunk.stream]
    return answers


def answers_of_stream(
    pending: Sequence[PendingAppend],
    batches: Sequence[Batch],
    commit: StreamCommit,
    log_start: int,
    gaps: SequenceGaps,
) -> list[AppendAnswer]:
    """The answers to the appends of one stream.

    An append of several batches fails if one of them was refused. A batch that left a gap gets a
    retriable error while ``gaps`` says so.
    """
    if not commit.verdicts:
        return _all_appended(pending, batches, commit, log_start, gaps)
    answers: list[AppendAnswer] = []
    offset = commit.start
    verdicts = {number: (code, known) for number, code, known in commit.verdicts}
    number = 0
    for one in pending:
        base_offset = -1
        error: KafkaError | None = None
        first = batches[number]
        for batch in batches[number : number + one.batches]:
            code, known = verdicts.get(number, (0, offset))
            if code in (0, DUPLICATE):
                base_offset = known if base_offset < 0 else base_offset
                gaps.arrived(commit.stream, batch)
            elif code == OutOfOrderSequence.code and gaps.is_retriable(commit.stream, batch, known):
                error = error or KafkaStorageError(
                    f"{_producer(batch)}: an earlier batch is missing"
                )
            else:
                error = error or _error(code, batch)
                logger.info("A batch was refused", extra={"stream": commit.stream, "error": error})
            if code == 0:
                offset += batch.count
            number += 1
        outcome: Appended | KafkaError | None = error
        if outcome is None:
            outcome = Appended(base_offset, _append_time(first), log_start)
        answers.append(AppendAnswer(one.number, one.done, outcome))
    return answers


def _all_appended(
    pending: Sequence[PendingAppend],
    batches: Sequence[Batch],
    commit: StreamCommit,
    log_start: int,
    gaps: SequenceGaps,
) -> list[AppendAnswer]:
    """The common case: no batch was refused, and none was a duplicate."""
    if gaps.any:
        for batch in batches:
            gaps.arrived(commit.stream, batch)
    answers: list[AppendAnswer] = []
    offset = commit.start
    number = 0
    for one in pending:
        appended = Appended(offset, _append_time(batches[number]), log_start)
        answers.append(AppendAnswer(one.number, one.done, appended))
        for batch in batches[number : number + one.batches]:
            offset += batch.count
        number += one.batches
    return answers


def _append_time(batch: Batch) -> int:
    return batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else NO_TIMESTAMP


def _error(code: int, batch: Batch) -> KafkaError:
    producer = _producer(batch)
    match code:
        case UnknownTopicOrPartition.code:
            return UnknownTopicOrPartition("the topic was deleted")
        case InvalidProducerEpoch.code:
            return InvalidProducerEpoch(f"{producer}: a newer epoch has written to this partition")
        case InvalidTxnState.code:
            return InvalidTxnState(
                f"{producer}: a transaction is open, and the batch is not part of it"
            )
        case TransactionCoordinatorFenced.code:
            return TransactionCoordinatorFenced(
                f"{producer}: a newer coordinator has ended transactions"
            )
        case InvalidRecord.code:
            return InvalidRecord(f"{producer}: a control batch without a transaction marker")
        case _:
            return OutOfOrderSequence(
                f"{producer}: sequence {batch.base_sequence} does not follow the last one"
            )


def _producer(batch: Batch) -> str:
    return f"producer {batch.producer_id} epoch {batch.producer_epoch}"
