"""kafka-python's producer with one request under way, which keeps a partition's order by itself.

It holds a partition back while a batch of it is under way, to whichever broker, as Kafka's Java
client does; no producer id tells the broker what was sent before.
"""

import itertools
import threading
import time
from functools import partial
from typing import Any

from tests.invariants.clients import TOPIC
from tests.invariants.history import Produced

FLUSH_SECONDS = 90.0


def produce_in_order(
    bootstrap: str, name: str, partitions: int, stop: threading.Event, *, pause: float
) -> list[Produced]:
    """Send numbered records to every partition until ``stop``; returns what became of each."""
    from kafka import KafkaProducer  # it warns when it is imported: the test that uses it knows

    done: list[Produced] = []
    producer = KafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        acks="all",
        enable_idempotence=False,
        max_in_flight_requests_per_connection=1,
        delivery_timeout_ms=300_000,
        request_timeout_ms=3_000,
        retry_backoff_ms=50,
        reconnect_backoff_max_ms=200,
        max_block_ms=300_000,
    )
    for number in itertools.count():
        if stop.wait(pause):
            break
        for partition in range(partitions):
            value = f"{name}:{partition}:{number}".encode()
            note = partial(_note, done, f"{name}:{partition}", number, partition, value)
            sent = producer.send(TOPIC, value, partition=partition)
            sent.add_callback(partial(note, time.monotonic()))
            sent.add_errback(partial(note, time.monotonic(), None))
    producer.flush(FLUSH_SECONDS)
    producer.close(FLUSH_SECONDS)
    return done


def _note(
    done: list[Produced],
    producer: str,
    number: int,
    partition: int,
    value: bytes,
    invoked: float,
    acknowledged: Any,
    error: Any = None,
) -> None:
    done.append(
        Produced(
            producer=producer,
            idempotent=False,
            number=number,
            partition=partition,
            broker=-1,
            values=(value,),
            offset=None if acknowledged is None else acknowledged.offset,
            error=0 if error is None else getattr(error, "errno", -1),
            invoked=invoked,
            completed=time.monotonic(),
            ordered=True,
            retried=True,
        )
    )
