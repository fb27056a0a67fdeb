"""A member in a thread of its own: a consumer belongs to the thread that polls it."""

import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Protocol

from tests.support.interop.members.state import InteropOffset, MemberSetup, PolledState

Arrived = tuple[str, int, str]


class Sightings:
    """What a client's callbacks tell, from whatever thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._assigned: set[str] = set()
        self._received: list[Arrived] = []
        self._rebalances = 0
        self.error = ""

    def assign(self, places: Iterable[str]) -> None:
        with self._lock:
            self._rebalances += 1
            self._assigned.update(places)

    def revoke(self, places: Iterable[str]) -> None:
        with self._lock:
            self._assigned.difference_update(places)

    def receive(self, arrived: Iterable[Arrived]) -> None:
        with self._lock:
            self._received.extend(arrived)

    def state(self) -> PolledState:
        with self._lock:
            received = tuple(self._received)
            return PolledState(frozenset(self._assigned), received, self._rebalances, self.error)


class PollingConsumer(Protocol):
    def poll(self) -> list[Arrived]:
        """What came within a short time."""
        ...

    def commit(self, offsets: Mapping[str, InteropOffset]) -> None: ...

    def close(self) -> None: ...


class PollingMember:
    def __init__(self, sightings: Sightings, create: Callable[[], PollingConsumer]) -> None:
        self._sightings = sightings
        self._create = create
        self._tasks: queue.Queue[tuple[Callable[[PollingConsumer], None], Future[None]]] = (
            queue.Queue()
        )
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        consumer = self._create()
        while not self._leaving.is_set():
            try:
                self._sightings.receive(consumer.poll())
            except Exception as failed:  # noqa: BLE001  the test decides what an error means
                self._sightings.error = repr(failed)
            while not self._tasks.empty():
                task, done = self._tasks.get()
                try:
                    done.set_result(task(consumer))
                except Exception as failed:  # noqa: BLE001  it is raised again where it was asked
                    done.set_exception(failed)
        consumer.close()

    def state(self) -> PolledState:
        return self._sightings.state()

    def commit(self, offsets: Mapping[str, InteropOffset]) -> None:
        done: Future[None] = Future()
        self._tasks.put((lambda consumer: consumer.commit(offsets), done))
        done.result(60)

    def leave(self) -> None:
        self._leaving.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the consumer does not close"


def python_configs(client: str, joining: MemberSetup, assignor: object) -> dict[str, object]:
    """The settings of aiokafka and kafka-python, which have the same names."""
    return {
        "bootstrap_servers": joining.bootstrap,
        "client_id": f"{client}-member",
        "group_id": joining.group,
        "group_instance_id": joining.instance or None,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": joining.auto_commit,
        "heartbeat_interval_ms": 500,
        "partition_assignment_strategy": [assignor],
    }
