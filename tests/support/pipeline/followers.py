"""Consumers that read topics all the time while jobs rearrange them, and check what they get."""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, TopicPartition

POLL_SECONDS: Final = 0.05
AT_ONCE: Final = 500
LAST_SECONDS: Final = 60.0

Place = tuple[str, int]
"""A topic and a partition."""


class TopicFollower:
    """Reads topics from their start to their end, again and again, on a thread.

    Every pass must see the offsets of a partition in order, and each record as it was seen
    before; unless there may be ``gaps``, without one. The last pass begins after the block that it
    follows. ``over_again=False`` makes one pass that never ends, as an ordinary consumer does.
    """

    def __init__(
        self, bootstrap: str, topics: Mapping[str, int], *, gaps: bool, over_again: bool
    ) -> None:
        self._places = [(topic, number) for topic, some in topics.items() for number in range(some)]
        self._gaps = gaps
        self._over_again = over_again
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "followers",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        self._seen: dict[Place, dict[int, int]] = {place: {} for place in self._places}
        self._next: dict[Place, int] = {}
        self._ended: set[Place] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.passes = 0
        self.records = 0
        self.problems: list[str] = []

    def __enter__(self) -> Self:
        self._begin()
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._over_again and kind is None:
            self._wait_for_passes(self.passes + 2)  # the first of them had begun before
        self._over.set()
        self._thread.join()
        self._consumer.close()

    def _wait_for_passes(self, count: int) -> None:
        until = time.monotonic() + LAST_SECONDS
        while self.passes < count and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        if self.passes < count:
            self.problems.append(f"after {LAST_SECONDS} s {count - self.passes} passes are missing")

    def _run(self) -> None:
        while not self._over.is_set():
            for message in self._consumer.consume(AT_ONCE, POLL_SECONDS):
                self._take(message)
            if self._over_again and len(self._ended) == len(self._places):
                self.passes += 1
                self._begin()

    def _begin(self) -> None:
        self._next = dict.fromkeys(self._places, 0)
        self._ended = set()
        self._consumer.assign([TopicPartition(*place, 0) for place in self._places])

    def _take(self, message: Any) -> None:
        place = (message.topic(), message.partition())
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._ended.add(place)
            elif not error.retriable() and error.code() != KafkaError._TRANSPORT:
                self.problems.append(f"{place}: {error}")
            return
        offset, wanted = message.offset(), self._next[place]
        self.records += 1
        if offset < wanted or (offset > wanted and not self._gaps):
            self.problems.append(f"{place}: offset {offset} where {wanted} is next")
        self._next[place] = offset + 1
        row = hash((message.key(), message.value(), message.timestamp(), str(message.headers())))
        if self._seen[place].setdefault(offset, row) != row:
            self.problems.append(f"{place}: the record at {offset} is another one than before")


@contextlib.contextmanager
def followed(bootstrap: str, topics: Mapping[str, int], *, gaps: bool = False) -> Iterator[None]:
    """While the block runs, consumers read these topics (partitions by name), old and new records.

    Raises ``AssertionError`` at its end where one saw a gap, a repeat or a changed record.
    """
    over_again = TopicFollower(bootstrap, topics, gaps=gaps, over_again=True)
    tail = TopicFollower(bootstrap, topics, gaps=gaps, over_again=False)
    with over_again, tail:
        yield
    assert not over_again.problems, over_again.problems[:5]
    assert not tail.problems, tail.problems[:5]
    assert over_again.records > tail.records > 0
