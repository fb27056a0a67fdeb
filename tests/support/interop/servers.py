"""The server under test: Headwater, or Apache Kafka itself to prove the tests.

``HEADWATER_INTEROP_SERVER=kafka`` runs the suite against Apache Kafka 4.3.
"""

import os
from pathlib import Path

from peers.headwater import start_headwater
from peers.kafka import start_kafka
from peers.process import Server

UNDER_TEST = os.environ.get("HEADWATER_INTEROP_SERVER", "headwater")

# Groups wait less for stragglers, and hear of changes sooner, than they do by default. Some wait
# there must be: kafka-python asks for a topic's partitions a tenth of a second after it has joined,
# and a leader that does not know them yet hands out nothing.
HEADWATER_SETTINGS = {
    "HEADWATER_GROUPS_INITIAL_REBALANCE_DELAY_MS": "300",
    "HEADWATER_GROUPS_CONSUMER_HEARTBEAT_INTERVAL_MS": "500",
}
KAFKA_SETTINGS = {
    "group.initial.rebalance.delay.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}


def start_server(data: Path, *, port: int | None = None, workers: int = 1) -> Server:
    """Apache Kafka has no workers: there it is one broker all the same."""
    match UNDER_TEST:
        case "headwater":
            return start_headwater(data, port=port, workers=workers, environment=HEADWATER_SETTINGS)
        case "kafka":
            return start_kafka(data, port=port, properties=KAFKA_SETTINGS)
        case other:
            raise ValueError(f"HEADWATER_INTEROP_SERVER is {other!r}: headwater or kafka")
