"""Whether a history keeps the log's promises, as a pure function after Jepsen's Kafka checker.

- I1: offsets are dense, none is given twice, and none ever holds two things.
- I2: what was acknowledged is readable at its offset through every broker, and through the one
  that acknowledged it from that moment on; what a client reported as delivered is somewhere.
- I3: nothing is there that nobody sent, and no batch is there in part.
- I4: an idempotent producer's batches are there once and in order, whatever was retried and
  through whom; others are there at most as often as they were sent, and those of a producer that
  has one batch under way at a time begin in order.
- Nobody is refused for good: an error that a retry mends is not written down.
- I5: a poll starts where it was asked to, skips nothing, is not told "out of range" for an
  offset that the log holds, and sees bounds that never go back.

I6, that clients of a zone are sent to that zone's brokers, leaves no trace in a history of
records: ``tests/unit/broker/cluster/test_zones.py`` holds the answers to it, and
``tests/system/cluster/test_zones.py`` the bytes.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, pairwise

from tests.system.invariants.history import FinalLog, History, Polled, Produced, Trimmed

OFFSET_OUT_OF_RANGE = 1


def violations(history: History, *, away: Collection[int] = ()) -> list[str]:
    """Every broken promise, in words; empty where there is none.

    ``away`` are the errors that say that a store is away: allowed only where one was.
    """
    partitions = {one.partition for one in history.produced}
    partitions |= {one.partition for one in history.finals}
    found: list[str] = []
    for partition in sorted(partitions):
        produced = [one for one in history.produced if one.partition == partition]
        polled = [one for one in history.polled if one.partition == partition]
        trimmed = [one for one in history.trimmed if one.partition == partition]
        finals = [one for one in history.finals if one.partition == partition]
        rules = (
            _one_value_per_offset(produced, polled, finals),
            _finals_agree(finals, trimmed),
            _acknowledged_is_there(produced, finals),
            _delivered_is_somewhere(produced, finals),
            _sent_by_someone(produced, polled, finals),
            _whole_batches(produced, polled, finals),
            _as_often_as_sent(produced, finals),
            _idempotent_once_in_order(produced, polled, finals),
            _one_at_a_time_in_order(produced, finals),
            _no_strange_errors(produced, polled, away),
            _polls_do_not_jump(polled),
            _in_range(polled, trimmed),
            _bounds_do_not_go_back(polled),
            _reads_its_writes(produced, polled),
        )
        found += [f"partition {partition}: {text}" for rule in rules for text in rule]
    return found


def _one_value_per_offset(
    produced: Sequence[Produced], polled: Sequence[Polled], finals: Sequence[FinalLog]
) -> Iterator[str]:
    contents: dict[int, bytes] = {}
    for offset, value in _observed(produced, polled, finals):
        other = contents.setdefault(offset, value)
        if other != value:
            yield f"offset {offset} holds {_short(other)} and {_short(value)}"


def _observed(
    produced: Sequence[Produced], polled: Sequence[Polled], finals: Sequence[FinalLog]
) -> Iterator[tuple[int, bytes]]:
    for one in produced:
        if one.offset is not None:
            yield from enumerate(one.values, one.offset)
    for seen in _shown(polled, finals):
        yield from seen.records


def _shown(polled: Sequence[Polled], finals: Sequence[FinalLog]) -> Sequence[Polled | FinalLog]:
    return [*polled, *finals]


def _finals_agree(finals: Sequence[FinalLog], trimmed: Sequence[Trimmed]) -> Iterator[str]:
    for final in finals:
        offsets = [offset for offset, _ in final.records]
        if offsets != list(range(final.log_start, final.high_watermark)):
            yield (
                f"broker {final.broker} has offsets {_ranges(offsets)} "
                f"of {final.log_start} to {final.high_watermark}"
            )
        least = max((one.log_start for one in trimmed if one.log_start is not None), default=0)
        most = max((one.before for one in trimmed), default=0)
        if not least <= final.log_start <= most:
            yield f"log start is {final.log_start}, it was moved to {least} and at most {most}"
    for one, other in pairwise(finals):
        if one.records != other.records:
            yield f"brokers {one.broker} and {other.broker} have different logs"


def _acknowledged_is_there(
    produced: Sequence[Produced], finals: Sequence[FinalLog]
) -> Iterator[str]:
    for final in finals:
        contents = dict(final.records)
        for one in produced:
            if one.offset is None:
                continue
            for offset, value in enumerate(one.values, one.offset):
                if offset >= final.log_start and contents.get(offset) != value:
                    yield (
                        f"{_short(value)} was acknowledged at {offset} by broker {one.broker}, "
                        f"broker {final.broker} does not have it there"
                    )


def _delivered_is_somewhere(
    produced: Sequence[Produced], finals: Sequence[FinalLog]
) -> Iterator[str]:
    """librdkafka takes an answer for one that all before it arrived, and knows no offset of those.

    Where the log was trimmed, those may have gone.
    """
    for final in finals:
        if final.log_start:
            continue
        there = {value for _, value in final.records}
        for one in produced:
            if one.delivered and not there.issuperset(one.values):
                yield (
                    f"{_short(one.values[0])} was reported as delivered, "
                    f"broker {final.broker} does not have it"
                )


def _sent_by_someone(
    produced: Sequence[Produced], polled: Sequence[Polled], finals: Sequence[FinalLog]
) -> Iterator[str]:
    sent = {value for one in produced for value in one.values}
    for offset, value in {pair for seen in _shown(polled, finals) for pair in seen.records}:
        if value not in sent:
            yield f"nobody sent {_short(value)}, found at {offset}"


def _whole_batches(
    produced: Sequence[Produced], polled: Sequence[Polled], finals: Sequence[FinalLog]
) -> Iterator[str]:
    place = {
        value: (number, len(one.values), one.values)
        for one in produced
        for number, value in enumerate(one.values)
    }
    for seen in _shown(polled, finals):
        known = [place[value] for _, value in seen.records if value in place]
        for (number, count, values), (following, _, other) in pairwise(known):
            same = values == other and following == number + 1
            if not same and (number != count - 1 or following != 0):
                yield f"broker {seen.broker} shows {_short(values[number])} without its batch"
        if known and known[-1][0] != known[-1][1] - 1:
            yield f"broker {seen.broker} ends inside the batch of {_short(known[-1][2][0])}"


def _as_often_as_sent(produced: Sequence[Produced], finals: Sequence[FinalLog]) -> Iterator[str]:
    sent = Counter(value for one in produced for value in one.values)
    unknown = {value for one in produced if one.retried for value in one.values}
    for final in finals:
        for value, times in Counter(value for _, value in final.records).items():
            if times > sent[value] and value not in unknown:
                yield f"{_short(value)} was sent {sent[value]} times and is there {times} times"


def _idempotent_once_in_order(
    produced: Sequence[Produced], polled: Sequence[Polled], finals: Sequence[FinalLog]
) -> Iterator[str]:
    origin = {
        value: (one.producer, one.number)
        for one in produced
        if one.idempotent
        for value in one.values
    }
    where: dict[bytes, set[int]] = defaultdict(set)
    for offset, value in _observed(produced, polled, finals):
        if value in origin:
            where[value].add(offset)
    for value, offsets in where.items():
        if len(offsets) > 1:
            yield f"{_short(value)} of an idempotent producer is at {sorted(offsets)}"
    for final in finals:
        order: dict[str, list[int]] = defaultdict(list)
        for _, value in final.records:
            if value in origin:
                producer, number = origin[value]
                if not order[producer] or order[producer][-1] != number:
                    order[producer].append(number)
        for producer, numbers in order.items():
            first = numbers[0] if final.log_start else 0
            if numbers != list(range(first, first + len(numbers))):
                yield f"idempotent {producer} wrote its batches in the order {_ranges(numbers)}"


def _one_at_a_time_in_order(
    produced: Sequence[Produced], finals: Sequence[FinalLog]
) -> Iterator[str]:
    """A retry may leave a batch twice; where each is first may not be out of order."""
    origin = {
        value: (one.producer, one.number) for one in produced if one.ordered for value in one.values
    }
    for final in finals:
        latest: dict[str, int] = {}
        seen: set[bytes] = set()
        for offset, value in final.records:
            if value in seen or value not in origin:
                continue
            seen.add(value)
            producer, number = origin[value]
            if number < latest.get(producer, 0):
                yield (
                    f"{producer}, with one batch under way at a time, has batch {number} first "
                    f"at {offset}, behind batch {latest[producer]}"
                )
            latest[producer] = number


def _no_strange_errors(
    produced: Sequence[Produced], polled: Sequence[Polled], away: Collection[int]
) -> Iterator[str]:
    for one in produced:
        if one.error:
            yield f"{one.producer} was refused batch {one.number}: error {one.error}"
    for poll in polled:
        if poll.error not in (0, OFFSET_OUT_OF_RANGE, *away):
            yield f"broker {poll.broker} answered a poll at {poll.asked} with error {poll.error}"


def _polls_do_not_jump(polled: Sequence[Polled]) -> Iterator[str]:
    for poll in polled:
        offsets = [offset for offset, _ in poll.records]
        if offsets != list(range(poll.asked, poll.asked + len(offsets))):
            yield f"a poll of broker {poll.broker} at {poll.asked} got {_ranges(offsets)}"
        if not poll.error and not offsets and poll.asked < poll.high_watermark:
            yield (
                f"broker {poll.broker} showed nothing at {poll.asked} "
                f"below its high watermark {poll.high_watermark}"
            )
        if offsets and offsets[-1] >= poll.high_watermark:
            yield (
                f"broker {poll.broker} showed offset {offsets[-1]} "
                f"above its high watermark {poll.high_watermark}"
            )


def _in_range(polled: Sequence[Polled], trimmed: Sequence[Trimmed]) -> Iterator[str]:
    for poll in polled:
        if poll.error == OFFSET_OUT_OF_RANGE and not any(
            trim.before > poll.asked and trim.invoked <= poll.completed for trim in trimmed
        ):
            yield f"broker {poll.broker} called offset {poll.asked} out of range"


def _bounds_do_not_go_back(polled: Sequence[Polled]) -> Iterator[str]:
    by_connection: dict[int, list[Polled]] = defaultdict(list)
    for poll in polled:
        if not poll.error:
            by_connection[poll.connection].append(poll)
    for polls in by_connection.values():
        for before, after in pairwise(sorted(polls, key=lambda poll: poll.invoked)):
            if after.high_watermark < before.high_watermark:
                yield (
                    f"the high watermark of broker {after.broker} went back from "
                    f"{before.high_watermark} to {after.high_watermark}"
                )
            if after.log_start < before.log_start:
                yield f"the log start of broker {after.broker} went back"


def _reads_its_writes(produced: Sequence[Produced], polled: Sequence[Polled]) -> Iterator[str]:
    acknowledged: dict[int, list[Produced]] = defaultdict(list)
    for one in sorted(produced, key=lambda one: one.completed):
        if one.offset is not None:
            acknowledged[one.broker].append(one)
    for broker, acks in acknowledged.items():
        times = [ack.completed for ack in acks]
        ends = list(accumulate(((ack.offset or 0) + len(ack.values) for ack in acks), max))
        for poll in polled:
            before = bisect_right(times, poll.invoked)
            if poll.broker == broker and not poll.error and before:
                end = ends[before - 1]
                if poll.high_watermark < end:
                    yield (
                        f"broker {broker} had acknowledged up to {end} "
                        f"and then showed a high watermark of {poll.high_watermark}"
                    )


def _short(value: bytes) -> str:
    return repr(value[:24])


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers as runs: ``0-4, 7``.

    >>> _ranges([0, 1, 2, 3, 4, 7])
    '0-4, 7'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" if first != last else str(first) for first, last in runs)
