"""With brokers in three zones, no byte of a record crosses from one to another."""

import asyncio
from pathlib import Path

import pytest

from tests.system.cluster.clients import produce, read
from tests.system.cluster.running import RunningCluster, place

pytestmark = pytest.mark.timeout(120)

ZONES = ("a", "b", "c")
PARTITIONS = 12
RECORDS = 600


def crossed(cluster: RunningCluster) -> dict[int, tuple[float, float]]:
    """By broker: the bytes of records within its zone, and across zones."""
    lines = [f'headwater_zone_bytes_total{{where="{where}"}}' for where in ("within", "across")]
    return {
        broker: (cluster.metric(broker, lines[0]), cluster.metric(broker, lines[1]))
        for broker in cluster.brokers
    }


@pytest.mark.parametrize("enforce_owner", [False, True])
async def test_no_byte_crosses_a_zone_while_all_are_up(
    tmp_path: Path,
    enforce_owner: bool,
) -> None:
    brokers = [{"rack": zone, "enforce_owner": enforce_owner} for zone in ZONES]
    async with place(tmp_path, brokers=brokers) as cluster:
        await cluster.create_topic("t", PARTITIONS)
        values = [f"{number}".encode() * 50 for number in range(RECORDS)]
        sent = sum(map(len, values))
        for number, zone in enumerate(ZONES):
            before = crossed(cluster)
            client_id = f"app=x,zone_id={zone}"
            await asyncio.to_thread(
                produce, cluster.bootstrap, "t", PARTITIONS, values, **{"client.id": client_id}
            )
            produced = crossed(cluster)
            for broker, (within, across) in produced.items():
                assert across == 0
                own = broker == number + 1
                assert (within - before[broker][0] > sent) == own, "produced elsewhere"
        total = len(ZONES) * RECORDS
        by_id = {"client.id": "zone_id=b"}
        by_rack = {"client.rack": "c"}
        for broker, settings in ((2, by_id), (3, by_rack)):
            before = crossed(cluster)
            found = await asyncio.to_thread(
                read, cluster.bootstrap, "t", PARTITIONS, total, **settings
            )
            assert len(found) == total
            after = crossed(cluster)
            assert all(across == 0 for _, across in after.values())
            grown = {each: after[each][0] - before[each][0] for each in after}
            assert grown[broker] > 3 * sent
            assert sum(grown.values()) == grown[broker], "fetched elsewhere"


async def test_clients_of_a_zone_without_brokers_are_served_by_all(tmp_path: Path) -> None:
    async with place(tmp_path, brokers=[{"rack": "a"}, {"rack": "b"}]) as cluster:
        await cluster.create_topic("t", 4)
        lost = {"client.id": "zone_id=nowhere", "client.rack": "nowhere"}
        values = [f"{number}".encode() for number in range(100)]
        await asyncio.to_thread(produce, cluster.bootstrap, "t", 4, values, **lost)
        found = await asyncio.to_thread(read, cluster.bootstrap, "t", 4, 100, **lost)
        assert sorted(value for _, _, value in found) == sorted(values)
        assert all(across > 0 for _, across in crossed(cluster).values())
