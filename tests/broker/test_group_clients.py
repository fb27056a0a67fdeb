"""Groups of real Python clients on a whole broker; the other languages are in tests/interop."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headwater.cli.compose import Broker
from headwater.config import load
from tests.broker.group_members import HEARTBEAT_MS, JOINS, TOPIC, Member

PARTITIONS = 4

pytestmark = [
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning"),
    # aiokafka forgets its sockets where a broker refuses the connection.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@asynccontextmanager
async def serving(directory: Path, port: int = 0) -> AsyncIterator[str]:
    """A broker on a directory, from start to a clean stop; gives its address."""
    settings = load(
        None,
        {},
        {
            "data": str(directory),
            "broker.listen": f"127.0.0.1:{port}",
            "broker.num_partitions": PARTITIONS,
            "groups.initial_rebalance_delay_ms": 0,
            "groups.consumer_heartbeat_interval_ms": HEARTBEAT_MS,
        },
    )
    stop = asyncio.Event()
    async with Broker(settings) as broker:
        running = asyncio.ensure_future(broker.run(stop))
        try:
            yield str(broker.address)
        finally:
            stop.set()
            await running


def produce(address: str, values: Sequence[bytes]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address})
    for number, value in enumerate(values):
        producer.produce(TOPIC, value, partition=number % PARTITIONS)
    assert producer.flush(20) == 0


async def until_shared(members: Sequence[Member]) -> None:
    """Poll until every member has its share and nobody another's."""
    share = PARTITIONS // len(members)
    while True:
        for member in members:
            await member.poll()
        owned = [await member.assigned() for member in members]
        if (
            all(len(partitions) == share for partitions in owned)
            and len(set().union(*owned)) == PARTITIONS
        ):
            return


async def read(members: Sequence[Member], count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        for member in members:
            found += await member.poll()
    return sorted(found)


@pytest.mark.parametrize("client", JOINS)
async def test_group_shares_partitions_and_goes_on_over_a_restart(
    tmp_path: Path, client: str
) -> None:
    first, second = [b"a%03d" % n for n in range(40)], [b"b%03d" % n for n in range(8)]
    join = JOINS[client]
    async with serving(tmp_path) as address:
        await asyncio.to_thread(produce, address, [b"zero"] * PARTITIONS)
        members: list[Member] = [await join(address, "g")]
        assert await read(members, PARTITIONS) == [b"zero"] * PARTITIONS
        await members[0].commit()
        members.append(await join(address, "g"))
        await until_shared(members)
        await asyncio.to_thread(produce, address, first)
        assert await read(members, len(first)) == first
        for member in members:
            await member.commit()
        await members.pop().close()
        await until_shared(members)
    async with serving(tmp_path, int(address.rpartition(":")[2])):
        await asyncio.to_thread(produce, address, second)
        assert await read(members, len(second)) == second
        await members[0].commit()
        await members[0].close()
        late = await join(address, "g")
        await until_shared([late])
        assert [await late.committed(partition) for partition in range(PARTITIONS)] == [13] * 4
        await late.close()
