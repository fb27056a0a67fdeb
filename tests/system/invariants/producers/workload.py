"""Producers and consumers that go from broker to broker and never wait for a repair."""

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass
from random import Random

from kio.schema.errors import ErrorCode

from tests.system.invariants.brokers import ServeProcess
from tests.system.invariants.history import FinalLog, History, Polled, Produced
from tests.system.invariants.producers.clients import (
    RETRIABLE,
    BrokerConnection,
    Choose,
    Lost,
    encode,
    now,
)

IN_FLIGHT = 5
"""What Kafka allows an idempotent producer."""

OUT_OF_RANGE = ErrorCode.offset_out_of_range
STALL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Outgoing:
    number: int
    values: tuple[bytes, ...]
    data: bytes


class PipeliningProducer:
    """Sends batches in order, up to ``in_flight`` unanswered, through one broker after another.

    It leaves a broker when an answer is lost or is an error, and sometimes for no reason, and
    then sends everything that has no answer again, in order, to the next one.
    """

    def __init__(
        self,
        name: str,
        partition: int,
        history: History,
        choose: Choose,
        rng: Random,
        *,
        producer_id: int = -1,
        in_flight: int = IN_FLIGHT,
    ) -> None:
        self._name = name
        self._partition = partition
        self._history = history
        self._choose = choose
        self._rng = rng
        self._producer_id = producer_id
        self._in_flight = in_flight
        self._sequence = 0
        self._number = 0
        self._unanswered: deque[Outgoing] = deque()

    async def run(self, stop: asyncio.Event) -> None:
        """Produce until ``stop``, then until everything has its answer."""
        while self._unanswered or not stop.is_set():
            with contextlib.suppress(Lost):
                broker = self._choose()
                async with await BrokerConnection.open(broker) as connection:
                    await self._converse(broker, connection, stop)
            await asyncio.sleep(self._rng.uniform(0, 0.05))

    async def _converse(
        self, broker: ServeProcess, connection: BrokerConnection, stop: asyncio.Event
    ) -> None:
        again = deque(self._unanswered)
        in_flight: deque[tuple[Outgoing, float]] = deque()
        window = self._rng.randint(1, self._in_flight)
        try:
            while True:
                while len(in_flight) < window and (again or not stop.is_set()):
                    batch = again.popleft() if again else self._next()
                    in_flight.append((batch, now()))
                    await connection.send_batch(self._partition, batch.data)
                if not in_flight or self._rng.random() < 0.02:
                    return
                error, offset = await connection.receive_offset()
                if error in RETRIABLE:
                    return
                batch, invoked = in_flight.popleft()
                self._note(
                    connection, batch, invoked, offset=None if error else offset, error=error
                )
                if error:
                    raise AssertionError(f"{self._name}: batch {batch.number} got error {error}")
                assert self._unanswered.popleft() is batch
                if self._rng.random() < 0.1:
                    await self._read_back(broker, offset)
                elif self._rng.random() < 0.1:
                    await self._read_back(self._choose(), offset + len(batch.values))
                await asyncio.sleep(self._rng.uniform(0, 0.01))
        finally:
            for batch, invoked in in_flight:
                self._note(connection, batch, invoked, offset=None, error=0)

    def _next(self) -> Outgoing:
        count = self._rng.randint(1, 3)
        filler = b"." * self._rng.choice([1, 20, 1500])
        values = tuple(
            b"%s:%d:%d:%s" % (self._name.encode(), self._number, index, filler)
            for index in range(count)
        )
        data = encode(values, producer_id=self._producer_id, sequence=self._sequence)
        batch = Outgoing(self._number, values, data)
        self._unanswered.append(batch)
        self._number += 1
        self._sequence += count
        return batch

    async def _read_back(self, broker: ServeProcess, offset: int) -> None:
        """Ask the broker that acknowledged a batch for it, or any other for what follows it."""
        async with await BrokerConnection.open(broker) as connection:
            await connection.poll(self._history, self._partition, offset, max_bytes=1, max_wait=0)

    def _note(
        self, connection: BrokerConnection, batch: Outgoing, invoked: float, *, offset: int | None,
        error: int,
    ) -> None:  # fmt: skip
        self._history.produced.append(
            Produced(
                producer=self._name,
                idempotent=self._producer_id >= 0,
                number=batch.number,
                partition=self._partition,
                broker=connection.broker,
                values=batch.values,
                offset=offset,
                error=error,
                invoked=invoked,
                completed=now(),
                ordered=self._in_flight == 1,
            )
        )


async def consume(
    history: History, partition: int, choose: Choose, rng: Random, stop: asyncio.Event
) -> None:
    """Read a partition on and on from broker to broker, now and then from its start again."""
    position = 0
    while not stop.is_set():
        with contextlib.suppress(Lost):
            async with await BrokerConnection.open(choose()) as connection:
                if rng.random() < 0.1:
                    position, _ = await connection.bounds(partition)
                for _ in range(rng.randint(1, 20)):
                    polled = await connection.poll(
                        history,
                        partition,
                        position,
                        max_bytes=rng.choice([1, 500, 20_000]),
                        max_wait=rng.choice([0, 100]),
                    )
                    position = await _following(connection, polled)
        await asyncio.sleep(rng.uniform(0, 0.05))


async def _following(connection: BrokerConnection, polled: Polled) -> int:
    if polled.error == OUT_OF_RANGE:
        return (await connection.bounds(polled.partition))[0]
    return polled.records[-1][0] + 1 if polled.records else polled.asked


async def read_final(history: History, connection: BrokerConnection, partition: int) -> None:
    """Read a whole partition through one broker; where it stalls, the rest is missing."""
    log_start, high_watermark = await connection.bounds(partition)
    position, found = log_start, list[tuple[int, bytes]]()
    deadline = now() + STALL_SECONDS
    while position < high_watermark and now() < deadline:
        polled = await connection.poll(history, partition, position, max_bytes=1 << 20)
        found += polled.records
        if polled.records:
            position = polled.records[-1][0] + 1
            deadline = now() + STALL_SECONDS
    history.finals.append(
        FinalLog(connection.broker, partition, log_start, high_watermark, tuple(found))
    )
