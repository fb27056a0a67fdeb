"""What happens to a job while its topic, its table or its data change."""

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headwater.log.formats import PARQUET, WAL
from headwater.log.job_steps import JobSteps
from headwater.log.jobs import Job
from headwater.pipeline.place import open_place
from headwater.pipeline.streams import read_topics
from headwater.pipeline.summary import STEPS, NoWatcher
from headwater.tables.settings import TableSettings
from tests.pipeline.cluster import Cluster, eventually, make_compactor, table_rows


class Meanwhile(NoWatcher):
    """Does something, once, when a job comes past a step."""

    def __init__(self, step: str, action: Callable[[], object]) -> None:
        self._step = step
        self._action: Callable[[], object] | None = action

    def step(self, job: Job, name: str) -> None:
        if name == self._step and self._action is not None:
            action, self._action = self._action, None
            action()


def elsewhere(work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run something to its end on another loop, while this one stands still."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


class Ahead:
    """A clock by which every other process has been silent for long."""

    def now_ms(self) -> int:
        import time

        return time.time_ns() // 1_000_000 + 3_600_000


async def compact_as_rival(cluster: Cluster, topic: str) -> None:
    async with cluster.open() as place:
        compactor = make_compactor(dataclasses.replace(place, clock=Ahead()))
        await compactor.compact([topic])
        compactor.close()


@pytest.mark.parametrize("step", STEPS[:-1])
async def test_a_rival_that_overtakes_at_any_step_changes_nothing(
    cluster: Cluster, step: str
) -> None:
    topic = cluster.create_topic(partitions=2)
    cluster.produce(topic, 200, partitions=2)
    expected = cluster.consume(topic)
    overtaken = Meanwhile(step, lambda: elsewhere(lambda: compact_as_rival(cluster, topic)))
    summary = await cluster.compact(topic, watcher=overtaken)
    assert not summary.failures
    assert {entry.kind for entry in await cluster.entries(topic)} == {PARQUET}
    assert cluster.consume(topic) == expected
    assert await cluster.table(topic) == expected


@pytest.mark.parametrize("step", ["created", "fixed", "committed"])
async def test_a_topic_deleted_in_the_middle_ends_its_job(cluster: Cluster, step: str) -> None:
    topic, other = cluster.create_topic(), cluster.create_topic()
    for each in (topic, other):
        cluster.produce(each, 100)
    watcher = Meanwhile(step, lambda: cluster.delete_topic(topic))
    summary = await cluster.compact(topic, other, watcher=watcher)
    assert not summary.failures
    assert await cluster.table(other) == cluster.consume(other)

    async def over() -> bool:
        async with cluster.open() as place:
            jobs = await JobSteps(place.meta, place.clock).open_jobs()
            return all(job.topic != topic for job in jobs)

    await eventually(over)
    cluster.create_topic(topic)
    cluster.produce(topic, 50, seed=9)
    assert (await cluster.compact(topic)).records == 50
    assert await cluster.table(topic) == cluster.consume(topic)


@pytest.mark.parametrize("step", ["created", "written", "fixed", "committed"])
@pytest.mark.parametrize("before", [60, 100])
async def test_records_deleted_in_the_middle_are_gone_and_nothing_stalls(
    cluster: Cluster, step: str, before: int
) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 100)
    watcher = Meanwhile(step, lambda: cluster.delete_records(topic, 0, before))
    assert not (await cluster.compact(topic, watcher=watcher)).failures
    cluster.produce(topic, 50, seed=1)
    assert not (await cluster.compact(topic)).failures
    kept = cluster.consume(topic)
    assert [row.offset for row in kept] == list(range(before, 150))
    assert [row for row in await cluster.table(topic) if row.offset >= before] == kept


async def test_what_was_deleted_before_a_job_is_in_no_table(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 100)
    cluster.delete_records(topic, 0, 55)
    assert not (await cluster.compact(topic)).failures
    assert await cluster.table(topic) == cluster.consume(topic)


async def test_a_catalog_that_is_down_is_waited_for_while_brokers_go_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 100)
    blocked = tmp_path / "blocked"
    blocked.write_text("not a directory")
    settings = TableSettings(catalog_uri=f"sqlite:///{blocked}/catalog.db")
    reasons: list[str] = []

    class Waiting(NoWatcher):
        def waiting(self, reason: str) -> None:
            reasons.append(reason)
            if len(reasons) == 2:
                cluster.produce(topic, 50, seed=1)
                assert len(cluster.consume(topic)) == 150
                blocked.unlink()

    async with open_place(cluster.address, settings) as place:
        compactor = make_compactor(place, watcher=Waiting())
        assert not (await compactor.compact([topic])).failures
        compactor.close()
        (found,) = await read_topics(place.meta, [topic])
        assert table_rows(place, found) == cluster.consume(topic)
    assert len(reasons) == 2
    assert "the catalog does not answer" in reasons[0]


async def test_a_table_that_someone_dropped_is_one_line_and_other_topics_go_on(
    cluster: Cluster,
) -> None:
    topic, other = cluster.create_topic(), cluster.create_topic()
    cluster.produce(topic, 100)
    await cluster.compact(topic)
    async with cluster.open() as place:
        (found,) = await read_topics(place.meta, [topic])
        table = place.tables.table(found)
        kept = table.catalog.load_table(table.name).metadata_location
        table.catalog.drop_table(table.name)
        for each in (topic, other):
            cluster.produce(each, 50, seed=1)
        summary = await cluster.compact(topic, other)
        (line,) = summary.failures
        assert "register it again" in line
        assert await cluster.table(other) == cluster.consume(other)
        table.catalog.register_table(table.name, kept)
    assert not (await cluster.compact(topic)).failures
    assert await cluster.table(topic) == cluster.consume(topic)


async def test_a_damaged_chunk_is_set_aside_and_later_ones_are_not_held_up(
    cluster: Cluster,
) -> None:
    topic = cluster.create_topic()
    for seed in range(3):
        cluster.produce(topic, 200, seed=seed)
    entries = [entry for entry in await cluster.entries(topic) if entry.kind == WAL]
    bad = entries[len(entries) // 2]
    path = cluster.data / "objects" / bad.key
    with path.open("r+b") as file:
        file.seek(bad.position + 70)
        byte = file.read(1)
        file.seek(bad.position + 70)
        file.write(bytes([byte[0] ^ 0xFF]))
    summary = await cluster.compact(topic)
    assert not summary.failures
    assert [(part[2], part[3]) for part in summary.set_aside] == [(bad.start, bad.end)]
    cluster.produce(topic, 100, seed=4)
    assert not (await cluster.compact(topic)).failures
    offsets = [row.offset for row in await cluster.table(topic)]
    assert offsets == [at for at in range(700) if not bad.start <= at < bad.end]
    kinds = {(entry.start, entry.kind) for entry in await cluster.entries(topic)}
    assert (bad.start, WAL) in kinds
    assert sum(kind != PARQUET for _, kind in kinds) == 1
