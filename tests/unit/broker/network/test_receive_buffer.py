"""Frames from bytes in pieces of any size, and the memory that a connection holds."""

import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.network.receive_buffer import (
    KEPT_SIZE,
    SHARED_SIZE,
    FrameTooLarge,
    ReceiveBuffer,
    shared_buffer,
)

LIMIT = 8 * 2**20


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class BufferFeeder:
    """Feeds one of the connections that share a buffer, as the event loop does."""

    def __init__(self, shared: memoryview) -> None:
        self.buffer = ReceiveBuffer(shared)
        self.frames: list[bytes] = []

    def send(self, data: bytes) -> None:
        while data:
            space = self.buffer.space()
            count = min(len(space), len(data))
            space[:count] = data[:count]
            self.buffer.received(count)
            while (taken := self.buffer.next_frame(LIMIT)) is not None:
                self.frames.append(bytes(taken))
            self.buffer.keep_rest()
            data = data[count:]


sizes = st.one_of(
    st.integers(1, 300),
    st.integers(SHARED_SIZE - 9, SHARED_SIZE + 9),
    st.integers(1, 3 * SHARED_SIZE),
    st.integers(KEPT_SIZE, KEPT_SIZE + 9),
)


@given(st.lists(st.lists(sizes, max_size=6), min_size=1, max_size=3), st.integers(0, 2**32))
def test_frames_of_several_connections_come_out_whole_and_in_order(
    streams: list[list[int]], seed: int
) -> None:
    random = Random(seed)
    shared = shared_buffer()
    senders = [BufferFeeder(shared) for _ in streams]
    bodies = [[random.randbytes(size) for size in stream] for stream in streams]
    left = [b"".join(map(frame, each)) for each in bodies]
    while any(left):
        turn = random.randrange(len(senders))
        count = random.choice([1, 3, 100, 5_000, SHARED_SIZE, 10 * SHARED_SIZE])
        senders[turn].send(left[turn][:count])
        left[turn] = left[turn][count:]
        senders[turn].buffer.space()  # a read that finds nothing
        if random.random() < 0.2:
            senders[turn].buffer.release()
    assert [sender.frames for sender in senders] == bodies


def test_a_connection_holds_nothing_between_small_requests() -> None:
    sender = BufferFeeder(shared_buffer())
    sender.send(frame(b"x" * 50_000) * 5)
    assert len(sender.frames) == 5
    assert sender.buffer.capacity == 0


def test_a_large_length_allocates_no_more_than_the_bytes_that_arrived() -> None:
    sender = BufferFeeder(shared_buffer())
    sender.send(struct.pack(">i", LIMIT) + b"x")
    assert sender.buffer.capacity == 5
    sender.send(b"x" * SHARED_SIZE)
    assert sender.buffer.capacity <= 4 * SHARED_SIZE


@pytest.mark.parametrize("size", [KEPT_SIZE - 8, KEPT_SIZE + 8])
def test_a_busy_producer_keeps_its_buffer_until_it_is_idle(size: int) -> None:
    sender = BufferFeeder(shared_buffer())
    sender.send(frame(b"x" * size))
    assert len(sender.frames) == 1
    assert sender.buffer.capacity == (size + 4 if size < KEPT_SIZE else 0)
    sender.buffer.release()
    assert sender.buffer.capacity == 0
    sender.send(frame(b"y"))
    assert sender.frames[1:] == [b"y"]


def test_an_idle_connection_does_not_lose_half_a_large_frame() -> None:
    sender = BufferFeeder(shared_buffer())
    whole = frame(b"x" * 3 * SHARED_SIZE)
    sender.send(whole[:SHARED_SIZE])
    sender.buffer.release()
    sender.send(whole[SHARED_SIZE:])
    assert sender.frames == [whole[4:]]


@pytest.mark.parametrize("length", [0, -1, LIMIT + 1])
def test_an_illegal_length_is_refused_at_once(length: int) -> None:
    with pytest.raises(FrameTooLarge, match=f"{length} bytes"):
        BufferFeeder(shared_buffer()).send(struct.pack(">i", length))
