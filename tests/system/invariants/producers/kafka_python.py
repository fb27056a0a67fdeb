"""kafka-python's producer with one request under way, which keeps a partition's order by itself.

It holds a partition back while a batch of it is under way, to whichever broker, as Kafka's Java
client does; no producer id tells the broker what was sent before. It has a process of its own,
``python -m`` this module with ``BOOTSTRAP NAME PARTITIONS PAUSE``, which sends until its input ends
and then writes what became of each record as lines of JSON: partition, number, offset,
error, and when it was sent and answered.
"""

import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from typing import Any

from tests.system.invariants.brokers import ROOT
from tests.system.invariants.history import Produced
from tests.system.invariants.producers.clients import TOPIC

FLUSH_SECONDS = 90.0


def produce_in_order(
    bootstrap: str, name: str, partitions: int, stop: threading.Event, *, pause: float
) -> list[Produced]:
    """Send numbered records to every partition until ``stop``; returns what became of each."""
    module = [sys.executable, "-m", __name__]
    with tempfile.TemporaryFile() as log:
        with subprocess.Popen(
            [*module, bootstrap, name, str(partitions), str(pause)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=ROOT,
        ) as process:  # fmt: skip
            stop.wait()
            written, _ = process.communicate(timeout=3 * FLUSH_SECONDS)
        log.seek(0)
        assert process.returncode == 0, f"{name}: {log.read().decode(errors='replace')[-2000:]}"
    done = []
    for line in written.splitlines():
        partition, number, offset, error, invoked, completed = json.loads(line)
        done.append(
            Produced(
                producer=f"{name}:{partition}",
                idempotent=False,
                number=number,
                partition=partition,
                broker=-1,
                values=(value_of(name, partition, number),),
                offset=offset,
                error=error,
                invoked=invoked,
                completed=completed,
                ordered=True,
                retried=True,
            )
        )
    return done


def value_of(name: str, partition: int, number: int) -> bytes:
    return f"{name}:{partition}:{number}".encode()


def main(bootstrap: str, name: str, partitions: int, pause: float) -> None:
    from kafka import KafkaProducer

    stop = threading.Event()

    def stop_with_input() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=stop_with_input, daemon=True).start()
    done: list[tuple[Any, ...]] = []
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

    def note(
        partition: int, number: int, invoked: float, acknowledged: Any, error: Any = None
    ) -> None:
        offset = None if acknowledged is None else acknowledged.offset
        code = 0 if error is None else getattr(error, "errno", -1)
        done.append((partition, number, offset, code, invoked, time.monotonic()))

    for number in itertools.count():
        if stop.wait(pause):
            break
        for partition in range(partitions):
            noted = partial(note, partition, number, time.monotonic())
            sent = producer.send(TOPIC, value_of(name, partition, number), partition=partition)
            sent.add_callback(noted)
            sent.add_errback(partial(noted, None))
    producer.flush(FLUSH_SECONDS)
    producer.close(FLUSH_SECONDS)
    sys.stdout.writelines(json.dumps(one) + "\n" for one in done)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
