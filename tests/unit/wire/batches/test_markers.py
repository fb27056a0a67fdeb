import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.wire.batches.batch import CONTROL, TRANSACTIONAL, BatchKind, split_batches
from headwater.wire.batches.markers import Marker, MarkerType, parse_marker
from headwater.wire.batches.records import Record, encode_batch


def control_records(key: bytes | None, value: bytes | None) -> bytes:
    return encode_batch([Record(0, 1, key, value)], attributes=TRANSACTIONAL | CONTROL)


@given(st.sampled_from(MarkerType), st.integers(0, 2**31 - 1))
def test_a_batch_tells_the_marker_that_it_was_made_of(kind: MarkerType, epoch: int) -> None:
    marker = Marker(kind, epoch)
    (batch,) = split_batches(control_records(marker.key, marker.value))
    assert (batch.kind, batch.marker) == (BatchKind.CONTROL, marker)


def test_fields_of_later_versions_are_passed_over() -> None:
    marker = Marker(MarkerType.ABORT, 7)
    later = control_records(b"\0\1" + marker.key[2:] + b"more", b"\0\1" + marker.value[2:] + b"!")
    assert split_batches(later)[0].marker == marker


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\0\0\2", b"\0\0\0\0\0\0"),
        (b"\0\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\1", b""),
        (None, b"\0\0\0\0\0\0"),
        (b"\0\0\0\1", None),
    ],
    ids=["leader change", "short key", "no value", "null key", "null value"],
)
def test_other_control_records_are_no_markers(key: bytes | None, value: bytes | None) -> None:
    assert split_batches(control_records(key, value))[0].marker is None


@given(st.binary(max_size=40))
def test_bytes_of_any_kind_are_a_marker_or_none(data: bytes) -> None:
    parse_marker(memoryview(data))


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        (0, BatchKind.DATA),
        (0x0C, BatchKind.DATA),
        (TRANSACTIONAL, BatchKind.TRANSACTIONAL),
        (CONTROL, BatchKind.CONTROL),
        (TRANSACTIONAL | CONTROL, BatchKind.CONTROL),
        (0x40 | TRANSACTIONAL | 4, BatchKind.TRANSACTIONAL),
    ],
)
def test_the_attributes_say_what_a_batch_is(attributes: int, kind: BatchKind) -> None:
    batch = split_batches(encode_batch([Record(0, 1, None, b"x")], attributes=attributes))[0]
    assert batch.kind is kind
