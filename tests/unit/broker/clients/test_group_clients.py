"""Groups of real Python clients on whole brokers; other languages: tests/system/clients."""

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.group_members import JOINS, TOPIC, ClientMember
from tests.support.broker.serving import PARTITIONS, call, port_of, serving

ZEROS = [b"zero"] * PARTITIONS

pytestmark = [
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def leave_no_sockets(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Both pure Python clients forget sockets where a broker refuses the connection, and what
    they log keeps them alive: they end here, where the warning is expected.
    """
    yield
    caplog.get_records("call").clear()
    gc.collect()


def produce(address: str, values: Sequence[bytes]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address})
    for number, value in enumerate(values):
        producer.produce(TOPIC, value, partition=number % PARTITIONS)
    assert producer.flush(20) == 0


async def until_shared(members: Sequence[ClientMember]) -> None:
    """Poll until every partition has exactly one member."""
    share = PARTITIONS // len(members)
    while True:
        for member in members:
            await member.poll()
        owned = [await member.assigned() for member in members]
        if {len(one) for one in owned} == {share} and len(set().union(*owned)) == PARTITIONS:
            return


async def read(members: Sequence[ClientMember], wanted: Sequence[bytes]) -> list[bytes]:
    """Everything that arrived by the time that all that is wanted has."""
    found: list[bytes] = []
    while Counter(wanted) - Counter(found):
        for member in members:
            found += await member.poll()
    return sorted(found)


@pytest.mark.parametrize("client", JOINS)
async def test_a_group_shares_partitions_and_continues_after_a_restart(
    tmp_path: Path, client: str
) -> None:
    first, second = [b"a%03d" % n for n in range(40)], [b"b%03d" % n for n in range(8)]
    join = JOINS[client]
    async with serving(tmp_path) as address:
        await asyncio.to_thread(produce, address, ZEROS)
        members: list[ClientMember] = [await join(address, "g")]
        assert await read(members, ZEROS) == ZEROS
        await members[0].commit()
        members.append(await join(address, "g"))
        await until_shared(members)
        await asyncio.to_thread(produce, address, first)
        assert await read(members, first) == first
        for member in members:
            await member.commit()
        await members.pop().close()
        await until_shared(members)
    async with serving(tmp_path, port=port_of(address)):
        await asyncio.to_thread(produce, address, second)
        assert await read(members, second) == second
        await members[0].commit()
        await members[0].close()
        late = await join(address, "g")
        await until_shared([late])
        assert [await late.committed(partition) for partition in range(PARTITIONS)] == [13] * 4
        await late.close()


@pytest.mark.parametrize("client", ["librdkafka classic", "librdkafka consumer protocol"])
async def test_a_group_does_not_rebalance_when_its_coordinator_stops(
    tmp_path: Path, client: str
) -> None:
    values = [b"%03d" % n for n in range(40)]
    async with AsyncExitStack() as stack:
        brokers = {number: AsyncExitStack() for number in (1, 2)}
        addresses = {
            number: await broker.enter_async_context(serving(tmp_path, broker_id=number))
            for number, broker in brokers.items()
        }
        for broker in brokers.values():
            stack.push_async_callback(broker.aclose)
        everywhere = ",".join(addresses.values())
        await asyncio.to_thread(produce, everywhere, ZEROS)
        members = [await JOINS[client](everywhere, "g") for _ in range(2)]
        await until_shared(members)
        before = [await member.assigned() for member in members]
        found = await call(
            addresses[1], ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=["g"]
        )
        await brokers.pop(found.coordinators[0].node_id).aclose()
        await asyncio.to_thread(produce, everywhere, values)
        assert [value for value in await read(members, values) if value != b"zero"] == values
        for member in members:
            await member.commit()
        assert [await member.assigned() for member in members] == before
        for member in members:
            await member.close()
