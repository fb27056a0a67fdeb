"""Brokers are restarted one after the other while applications work, and these notice nothing."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.system.cluster.running import ClientLoad, RunningCluster, StoreUrls, place

pytestmark = pytest.mark.timeout(120)

PARTITIONS = 6


async def serving(cluster: RunningCluster, count: int) -> None:
    """Wait until ``count`` brokers report that they serve."""
    async with asyncio.timeout(20):
        while True:
            brokers = (await cluster.command("cluster", "status"))["brokers"]
            if sum(each["state"] == "serving" for each in brokers) == count:
                return
            await asyncio.sleep(0.2)


def assert_nothing_noticed(load: ClientLoad) -> None:
    assert not load.errors, load.errors[:10]
    assert len(load.sent) > 500
    stored: dict[tuple[int, int], bytes] = {}
    for partition, offset, value in load.received:
        assert stored.setdefault((partition, offset), value) == value
    values = list(stored.values())
    assert len(values) == len(set(values)), "an idempotent producer's record is there twice"
    missing = set(load.sent) - set(values)
    assert not missing, f"{len(missing)} acknowledged records are gone: {sorted(missing)[:5]}"
    numbers: dict[tuple[str, int], int] = {}
    for (partition, _), value in sorted(stored.items()):
        name, _, number = value.decode().split(":")
        assert int(number) > numbers.get((name, partition), -1), "a producer's order changed"
        numbers[name, partition] = int(number)


async def test_a_rolling_restart_loses_nothing_and_shows_no_error(
    tmp_path: Path, stores: StoreUrls
) -> None:
    async with place(tmp_path, brokers=[{}, {}, {}], stores=stores) as cluster:
        await cluster.create_topic("t", PARTITIONS)
        load = ClientLoad(cluster.bootstrap, "t", PARTITIONS)
        load.start()
        try:
            await asyncio.sleep(3)
            for broker_id in (1, 2, 3):
                await cluster.stop(broker_id)
                await cluster.brokers[broker_id].start()
                await serving(cluster, 3)
                await asyncio.sleep(1)
        finally:
            await asyncio.to_thread(load.stop)
        assert_nothing_noticed(load)
        assert not cluster.crashes(), "\n".join(cluster.crashes())


async def test_a_drained_broker_has_no_clients_and_can_be_killed(tmp_path: Path) -> None:
    async with place(tmp_path, brokers=[{}, {}]) as cluster:
        await cluster.create_topic("t", PARTITIONS)
        load = ClientLoad(cluster.bootstrap, "t", PARTITIONS)
        load.start(producers=1, members=2)
        try:
            await asyncio.sleep(2)
            drained = await cluster.command("cluster", "drain", "2", "--timeout", "40")
            assert drained["state"] == "drained"
            alone = await asyncio.to_thread(cluster.run, "cluster", "drain", "1", check=False)
            assert alone.returncode == 1
            assert "broker 1 is the only one that serves, so its clients" in alone.stderr
            await cluster.brokers[2].kill()
            await asyncio.sleep(2)
            await cluster.brokers[2].start()
            await serving(cluster, 2)
        finally:
            await asyncio.to_thread(load.stop)
        assert_nothing_noticed(load)


async def test_a_drain_can_be_taken_back(tmp_path: Path) -> None:
    async with place(tmp_path, brokers=[{}, {}]) as cluster:
        await cluster.command("cluster", "drain", "2", "--timeout", "20")
        taken_back = await asyncio.to_thread(cluster.run, "cluster", "drain", "2", "--cancel")
        assert taken_back.stdout == ("Cancelled the drain of broker 2; it serves again.\n")
        shown = await asyncio.to_thread(cluster.run, "cluster", "status", "--json")
        assert [each["state"] for each in json.loads(shown.stdout)["brokers"]] == ["serving"] * 2
        again = await asyncio.to_thread(cluster.run, "cluster", "drain", "2", "--cancel")
        assert again.stdout == "Broker 2 was not draining; nothing was changed.\n"
