"""Checks that a produced batch contains the records that its header states.

``walk_kernel.walk`` is compiled (extra ``table``); ``walk`` here is the same in Python.
``walk_lengths`` checks only the lengths of the first records. All three follow Kafka's
``DefaultRecord``, except that offset deltas must be 0, 1, 2 and so on. With other deltas Kafka
renumbers the records of a compressed batch, and accepts those of an uncompressed batch unchanged.

A walk can continue where an earlier walk over the beginning of the same records stopped. So a
compressed batch is refused at its first invalid record, before the rest is decompressed.
"""

from typing import Final, NamedTuple, Protocol

from headwater.errors import InvalidRecord
from headwater.wire.batches.batch import MIN_RECORD
from headwater.wire.batches.codecs import Buffer
from headwater.wire.varint import decode_signed

MIN_BODY: Final = MIN_RECORD - 1
_LEAST_LENGTH: Final = 2 * MIN_BODY
"""As a varint has it."""
MAX_LENGTH_BYTES: Final = 5
"""Maximum bytes of a record's length."""

WALKED: Final = 0
"""All records are valid; bytes may follow them."""
CUT: Final = 1
"""The bytes end inside the record at ``index``."""
MALFORMED: Final = 2
"""The record at ``index`` is malformed."""
FAULTY: Final = 3
"""``MAX_FAULTS`` records break the topic's rules; the rest was not checked."""

LENGTHS_WALKED: Final = 100
"""Records that ``walk_lengths`` checks."""
MAX_FAULTS: Final = 1000
"""Maximum records of one batch whose faults are reported."""
NO_KEY: Final = 0
OUT_OF_TIME: Final = 1
NO_TIMESTAMP: Final = -1


class RecordLimits(NamedTuple):
    """The rules for the records of one batch: number, keys, and timestamps in ms."""

    records: int
    needs_keys: bool
    earliest: int
    latest: int


class Walked(NamedTuple):
    """The state of a walk. ``number`` and ``position`` are those of the next record."""

    status: int = CUT
    number: int = 0
    position: int = 0
    largest: int = NO_TIMESTAMP
    """The largest timestamp so far."""
    faults: tuple[int, ...] = ()
    """Twice the index of each record that breaks a rule, plus ``NO_KEY`` or ``OUT_OF_TIME``."""


class Walk(Protocol):
    """Walks the records in ``payload[start.position:size]``, in order."""

    def __call__(
        self, payload: Buffer, size: int, start: Walked, base_timestamp: int, limits: RecordLimits
    ) -> Walked: ...


class Sought(NamedTuple):
    """The first record that a search found: its offset delta and timestamp, or delta -1."""

    status: int
    delta: int
    timestamp: int
    largest: int
    """The largest timestamp of the records that were read."""


class RecordSearch(Protocol):
    """Finds the first record at or after ``timestamp`` with an offset delta of at least ``least``.

    With ``stamped``, ``base_timestamp`` is the timestamp of all records.
    """

    def __call__(
        self,
        payload: Buffer,
        size: int,
        count: int,
        base_timestamp: int,
        timestamp: int,
        least: int,
        *,
        stamped: bool,
    ) -> Sought: ...


def walk_lengths(
    payload: Buffer,
    size: int,
    start: Walked,
    base_timestamp: int,
    limits: RecordLimits,
) -> Walked:
    """Check only that the lengths of the first ``LENGTHS_WALKED`` records fit."""
    number, position = start.number, start.position
    last = min(limits.records, LENGTHS_WALKED)
    while number < last and position + 1 < size:
        length, second = payload[position], payload[position + 1]
        at = position + 1
        if length >= 0x80:
            at = position + 2
            length += (second - 1) << 7
            if second >= 0x80:
                break  # a longer length
        if length & 1 or length < _LEAST_LENGTH:
            return Walked(MALFORMED, number, position)
        at += length >> 1
        if at > size:
            return Walked(CUT, number, position)
        position = at
        number += 1
    if number == last:
        return Walked(WALKED, number, position)
    next_one = _after_long_record(payload, size, number, position)
    if next_one.status != WALKED:
        return next_one
    return walk_lengths(payload, size, next_one, base_timestamp, limits)


def _after_long_record(payload: Buffer, size: int, number: int, position: int) -> Walked:
    """Skip one record of any length; ``walk_lengths`` continues behind it."""
    try:
        end_of_length = min(size, position + MAX_LENGTH_BYTES)
        length, at = decode_signed(memoryview(payload), position, end_of_length)
    except InvalidRecord:
        status = MALFORMED if size - position >= MAX_LENGTH_BYTES else CUT
        return Walked(status, number, position)
    if length < MIN_BODY:
        return Walked(MALFORMED, number, position)
    if at + length > size:
        return Walked(CUT, number, position)
    return Walked(WALKED, number + 1, at + length)


def walk(
    payload: Buffer, size: int, start: Walked, base_timestamp: int, limits: RecordLimits
) -> Walked:
    """Check every record completely; some microseconds per record."""
    data = memoryview(payload)
    _, index, position, largest, known = start
    faults = [*known]
    while index < limits.records:
        try:
            length, at = decode_signed(data, position, min(size, position + MAX_LENGTH_BYTES))
        except InvalidRecord:
            status = MALFORMED if size - position >= MAX_LENGTH_BYTES else CUT
            return Walked(status, index, position, largest, tuple(faults))
        if length < MIN_BODY:
            return Walked(MALFORMED, index, position, largest, tuple(faults))
        end = at + length
        if end > size:
            return Walked(CUT, index, position, largest, tuple(faults))
        try:
            timestamp, has_key = _read_record(data, at + 1, end, index)
        except InvalidRecord:
            return Walked(MALFORMED, index, position, largest, tuple(faults))
        timestamp += base_timestamp
        if limits.needs_keys and not has_key:
            faults.append(index * 2 + NO_KEY)
        elif not limits.earliest <= timestamp <= limits.latest and timestamp != NO_TIMESTAMP:
            faults.append(index * 2 + OUT_OF_TIME)
        largest = max(largest, timestamp)
        index, position = index + 1, end
        if len(faults) == MAX_FAULTS:
            return Walked(FAULTY, index, position, largest, tuple(faults))
    return Walked(WALKED, index, position, largest, tuple(faults))


def search(
    payload: Buffer,
    size: int,
    count: int,
    base_timestamp: int,
    timestamp: int,
    least: int,
    *,
    stamped: bool,
) -> Sought:
    """See ``RecordSearch``; about a microsecond per record."""
    data = memoryview(payload)
    position, largest = 0, NO_TIMESTAMP
    for _ in range(count):
        try:
            length, at = decode_signed(data, position, size)
            end = at + length
            if length < MIN_BODY or end > size:
                return Sought(MALFORMED if length < MIN_BODY else CUT, -1, NO_TIMESTAMP, largest)
            delta, at = decode_signed(data, at + 1, end)
            offset, at = decode_signed(data, at, end)
        except InvalidRecord:
            return Sought(CUT, -1, NO_TIMESTAMP, largest)
        if offset >= least:
            found = base_timestamp if stamped else base_timestamp + delta
            largest = max(largest, found)
            if found >= timestamp:
                return Sought(WALKED, offset, found, largest)
        position = end
    return Sought(WALKED, -1, NO_TIMESTAMP, largest)


def _read_record(data: memoryview, at: int, end: int, index: int) -> tuple[int, bool]:
    """A record's timestamp delta and whether it has a key. Raises ``InvalidRecord``."""
    delta, at = decode_signed(data, at, end)
    offset, at = decode_signed(data, at, end)
    if offset != index:
        raise InvalidRecord(f"offset delta {offset}")
    key, at = decode_signed(data, at, end)
    at = _skip(at, key, end)
    value, at = decode_signed(data, at, end)
    at = _skip(at, value, end)
    headers, at = decode_signed(data, at, end)
    if not 0 <= headers <= end - at:
        raise InvalidRecord(f"{headers} headers")
    for _ in range(headers):
        name, at = decode_signed(data, at, end)
        if name < 0:
            raise InvalidRecord("a header has no key")
        at = _skip(at, name, end)
        content, at = decode_signed(data, at, end)
        at = _skip(at, content, end)
    if at != end:
        raise InvalidRecord(f"{end - at} bytes are left")
    return delta, key >= 0


def end_of_record(payload: Buffer, position: int) -> int:
    """The end of the record at ``position``; ``position`` itself if its length is cut off."""
    data = memoryview(payload)
    try:
        length, at = decode_signed(data, position, min(len(data), position + MAX_LENGTH_BYTES))
    except InvalidRecord:
        return position
    return at + length


def _skip(at: int, size: int, end: int) -> int:
    if size > end - at:
        raise InvalidRecord(f"{size} bytes in {end - at}")
    return at + max(size, 0)


def check_end(walked: Walked, size: int, limits: RecordLimits) -> None:
    """Raises ``InvalidRecord`` unless the records end at the end of their bytes."""
    left = limits.records - walked.number
    if walked.status in (MALFORMED, CUT):
        raise InvalidRecord(f"record {walked.number} is malformed")
    if left == 0 and walked.position != size:
        raise InvalidRecord(f"{size - walked.position} bytes follow the last record")
    if left * MIN_RECORD > size - walked.position:
        raise InvalidRecord(f"{left} records in {size - walked.position} bytes")
