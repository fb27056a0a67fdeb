"""librdkafka's own producers, which retry by themselves, and what became of their records."""

import itertools
import json
import threading
import time
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from tests.system.invariants.history import Produced
from tests.system.invariants.producers.clients import TOPIC

FLUSH_SECONDS = 90.0
"""How long the last records may take once nothing is harmed any more."""
ANEW_SECONDS = 1.0
BROKER_VIEW = ("state", "stateage", "outbuf_cnt", "waitresp_cnt", "tx", "txretries", "req_timeouts")
PARTITION_VIEW = (
    *("leader", "msgq_cnt", "xmit_msgq_cnt", "msgs_inflight", "txmsgs"),
    *("next_ack_seq", "next_err_seq", "acked_msgid"),
)


def produce(
    bootstrap: str,
    name: str,
    partitions: int,
    stop: threading.Event,
    *,
    idempotent: bool = True,
    pause: float = 0.002,
    seconds: float = float("inf"),
) -> list[Produced]:
    """Send numbered records to every partition until ``stop``; returns what became of each.

    Or for some ``seconds``, if that is sooner. What was sent by then may take as long as harm is
    done, which ends with ``stop``.

    One that is not idempotent has one request under way at a time by connection, which does not
    keep its order where a partition moves to another broker (librdkafka's issue 1969).
    """
    done: list[Produced] = []
    view = _View()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            **configuration(idempotent),
            "statistics.interval.ms": 1_000,
            "stats_cb": view.update,
        }
    )
    until = time.monotonic() + seconds
    for number in itertools.count():
        if stop.is_set() or time.monotonic() > until:
            break
        for partition in range(partitions):
            value = f"{name}:{partition}:{number}".encode()
            sent = time.monotonic()

            def report(
                error: KafkaError | None,
                message: Message,
                number: int = number,
                partition: int = partition,
                value: bytes = value,
                sent: float = sent,
            ) -> None:
                done.append(
                    Produced(
                        producer=f"{name}:{partition}",
                        idempotent=idempotent,
                        number=number,
                        partition=partition,
                        broker=-1,
                        values=(value,),
                        offset=message.offset() if error is None else None,
                        error=0 if error is None else error.code(),
                        invoked=sent,
                        completed=time.monotonic(),
                        retried=True,
                        delivered=error is None,
                    )
                )

            producer.produce(TOPIC, value, partition=partition, on_delivery=report)
        producer.poll(pause)
    stopped = None
    while left := producer.flush(1.0):
        if stop.is_set() and stopped is None:
            stopped = time.monotonic()
        late = stopped is not None and time.monotonic() > stopped + FLUSH_SECONDS
        assert not late, f"{name}: {left} of {len(done) + left} records not delivered: {view}"
    return done


class _View:
    """What the client last said of itself, for the one who asks why it is stuck."""

    def __init__(self) -> None:
        self._last: dict[str, Any] = {}

    def update(self, statistics: str) -> None:
        self._last = json.loads(statistics)

    def __str__(self) -> str:
        return json.dumps(
            {
                "eos": self._last.get("eos"),
                "brokers": {
                    name: {key: broker[key] for key in BROKER_VIEW}
                    for name, broker in self._last.get("brokers", {}).items()
                },
                "partitions": {
                    number: {key: partition[key] for key in PARTITION_VIEW}
                    for topic in self._last.get("topics", {}).values()
                    for number, partition in topic["partitions"].items()
                },
            }
        )


def produce_anew(
    bootstrap: str, name: str, partitions: int, stop: threading.Event, *, pause: float = 0.002
) -> list[Produced]:
    """Run idempotent producers one after another; each is new to every partition."""
    done: list[Produced] = []
    for number in itertools.count():
        if stop.is_set():
            break
        done += produce(
            bootstrap, f"{name}{number}", partitions, stop, pause=pause, seconds=ANEW_SECONDS
        )
    return done


def configuration(idempotent: bool) -> dict[str, Any]:
    """What differs from librdkafka's defaults, so that faults are noticed within the test."""
    return {
        "enable.idempotence": idempotent,
        "max.in.flight": 5 if idempotent else 1,
        "linger.ms": 1,
        "message.timeout.ms": 300_000,
        "socket.timeout.ms": 2_000,
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.max.ms": 200,
        "log_level": 0,
    }
