"""What happens to a job while its topic, its table or its data change."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import StorageFull, StoreError
from headwater.log.formats.metadata_values import WAL
from headwater.log.jobs.jobs import Job
from headwater.pipeline.cluster_stores import open_cluster_stores
from headwater.pipeline.compaction.summary import STEPS, NoWatcher
from headwater.pipeline.metadata_reads import read_topics
from headwater.tables.settings import TableSettings
from tests.support.pipeline import drivers, tally
from tests.support.pipeline.cluster import (
    PipelineCluster,
    Row,
    make_compactor,
    table_rows,
)
from tests.support.pipeline.drivers import FORGETFUL
from tests.support.pipeline.readings.kinds import (
    COMPACT,
    COPIES,
    KINDS,
    PARTITIONS,
    SEGMENTS,
    JobKind,
    Subject,
    nothing_is_left,
)
from tests.support.pipeline.sizes import some
from tests.support.waiting import eventually

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


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
    """Run something to its end on another loop, while this loop is blocked."""
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


def steps(kind: JobKind) -> list[str]:
    """Where something happens in the middle of a job."""
    return [step for step in some(STEPS, ("created", "fixed", "committed")) if step in kind.points]


async def drive_with(subject: Subject, step: str, action: Callable[[], object]) -> None:
    """Run a job in whose middle something happens; it ends without an error."""
    async with subject.cluster.open(FORGETFUL) as place:
        compactor = make_compactor(
            place, watcher=Meanwhile(step, action), claim_ms=drivers.CLAIM_MS
        )
        summary = await getattr(compactor, subject.kind.method)([subject.topic])
        compactor.close()
    assert not summary.failures, (step, summary.failures)


@every_kind
async def test_a_topic_deleted_and_created_again_in_the_middle(
    cluster: PipelineCluster, kind: JobKind
) -> None:
    subject, other = Subject(cluster, kind), Subject(cluster, COMPACT)
    other.produce(50)
    for step in steps(kind):
        await subject.prepare()

        def create_again() -> None:
            cluster.delete_topic(subject.topic)
            cluster.create_topic(subject.topic, partitions=PARTITIONS, configs=kind.configs)
            subject.produce(30)

        await drive_with(subject, step, create_again)
        tally.faults.add("a topic created again")
        await subject.finish()
        log = await subject.check_agreement()
        assert len(log) == 30 or kind.keeps_last
    await other.finish()
    await other.check_agreement()
    await nothing_is_left(cluster, subject.topic, other.topic)


@every_kind
@pytest.mark.parametrize("share", some((0.6, 1.0), (0.6,)), ids=lambda share: f"{share:.0%}")
async def test_records_deleted_in_the_middle_stay_deleted_and_nothing_stalls(
    cluster: PipelineCluster, kind: JobKind, share: float
) -> None:
    subject = Subject(cluster, kind)
    for step in steps(kind):
        rows = await subject.prepare()

        def delete(rows: list[Row] = rows) -> None:
            for partition in range(PARTITIONS):
                own = [row.offset for row in rows if row.partition == partition]
                cut = own[0] + round((own[-1] + 1 - own[0]) * share)
                cluster.delete_records(subject.topic, partition, cut)

        await drive_with(subject, step, delete)
        tally.faults.add("DeleteRecords in the middle")
        subject.produce(20)
        await subject.finish()
        log = await subject.check_agreement()
        starts = cluster.log_starts(subject.topic)
        assert all(row.offset >= starts[row.partition] for row in log)
    await nothing_is_left(cluster, subject.topic)


@every_kind
async def test_retention_in_the_middle_of_a_job(cluster: PipelineCluster, kind: JobKind) -> None:
    subject = Subject(cluster, kind)
    for step in steps(kind):
        await subject.prepare()
        ends = {row.partition: row.offset + 1 for row in cluster.consume(subject.topic)}

        def retain(ends: dict[int, int] = ends) -> None:
            cluster.configure(subject.topic, {"retention.ms": "3600000"})
            elsewhere(partial(eventually, partial(retained, ends)))
            cluster.configure(subject.topic, {"retention.ms": "-1"})

        async def retained(ends: dict[int, int]) -> bool:
            return cluster.log_starts(subject.topic) == ends

        await drive_with(subject, step, retain)
        tally.faults.add("retention in the middle")
        subject.produce(20)
        await subject.finish()
        assert await subject.check_agreement()
    await nothing_is_left(cluster, subject.topic)


async def test_what_was_deleted_before_a_job_is_in_no_table(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 100)
    cluster.delete_records(topic, 0, 55)
    assert not (await cluster.compact(topic)).failures
    assert await cluster.table(topic) == cluster.consume(topic)


async def test_a_catalog_that_is_down_is_waited_for_while_brokers_go_on(
    cluster: PipelineCluster, tmp_path: Path
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

    async with open_cluster_stores(cluster.address, settings) as place:
        compactor = make_compactor(place, watcher=Waiting())
        assert not (await compactor.compact([topic])).failures
        compactor.close()
        (found,) = await read_topics(place.meta, [topic])
        assert table_rows(place, found) == cluster.consume(topic)
    tally.faults.add("a catalog that was down")
    assert len(reasons) == 2
    assert "the catalog does not answer" in reasons[0]


async def test_a_table_that_someone_dropped_is_one_line_and_other_topics_go_on(
    cluster: PipelineCluster,
) -> None:
    topic, other = cluster.create_topic(), cluster.create_topic()
    cluster.produce(topic, 100)
    await cluster.compact(topic)
    async with cluster.open() as place:
        (found,) = await read_topics(place.meta, [topic])
        table = place.tables.table(found)
        kept = table.catalog.load_table(table.name).metadata_location
        table.catalog.drop_table(table.name)
        tally.faults.add("a table that someone dropped")
        for each in (topic, other):
            cluster.produce(each, 50, seed=1)
        summary = await cluster.compact(topic, other)
        (line,) = summary.failures
        assert "register it again" in line
        assert await cluster.table(other) == cluster.consume(other)
        table.catalog.register_table(table.name, kept)
    assert not (await cluster.compact(topic)).failures
    assert await cluster.table(topic) == cluster.consume(topic)


@pytest.mark.parametrize("kind", [COMPACT, SEGMENTS, COPIES], ids=lambda kind: kind.name)
async def test_a_damaged_chunk_is_set_aside_and_later_ones_are_not_held_up(
    cluster: PipelineCluster, kind: JobKind
) -> None:
    topic = cluster.create_topic(configs=kind.configs)
    for seed in range(3):
        cluster.produce(topic, 200, seed=seed)
    entries = [entry for entry in await cluster.entries(topic) if entry.kind == WAL]
    bad = entries[len(entries) // 2]
    damage(cluster.data / "objects" / bad.key, bad.position + 70)
    tally.faults.add("a damaged chunk")
    summary = await cluster.compact(topic)
    assert not summary.failures
    assert [(part[2], part[3]) for part in summary.set_aside] == [(bad.start, bad.end)]
    cluster.produce(topic, 100, seed=4)
    assert not (await cluster.compact(topic)).failures
    kinds = {(entry.start, entry.kind) for entry in await cluster.entries(topic)}
    assert (bad.start, WAL) in kinds
    assert sum(found == WAL for _, found in kinds) == 1
    if kind.has_table:
        offsets = [row.offset for row in await cluster.table(topic)]
        assert offsets == [at for at in range(700) if not bad.start <= at < bad.end]


def damage(path: Path, position: int) -> None:
    """Turn the bits of one byte."""
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 0xFF]))


async def test_a_table_that_someone_wrote_to_is_one_line_and_others_go_on(
    cluster: PipelineCluster,
) -> None:
    topic, other = cluster.create_topic(), cluster.create_topic()
    cluster.produce(topic, 50)
    await cluster.compact(topic)
    async with cluster.open() as place:
        (found,) = await read_topics(place.meta, [topic])
        table = place.tables.table(found).catalog.load_table(place.tables.table(found).name)
        table.append(table.scan().to_arrow())
        tally.faults.add("a table that someone changed")
        for each in (topic, other):
            cluster.produce(each, 50, seed=1)
        (line,) = (await cluster.compact(topic, other)).failures
        assert "was changed by another writer" in line
        assert "roll the table back" in line
        assert "\n" not in line
        assert await cluster.table(other) == cluster.consume(other)
        ours = table.metadata.properties["headwater.snapshot"]
        table.refresh().manage_snapshots().set_current_snapshot(int(ours)).commit()
    assert not (await cluster.compact(topic)).failures
    assert await cluster.table(topic) == cluster.consume(topic)


def no_space(*_args: object, **_more: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def database_is_full(*_args: object, **_more: object) -> None:
    raise StorageFull("the metadata database has no space left")


@pytest.mark.parametrize(
    ("place", "failure"),
    [
        ("headwater.tables.files.object_writer._publish", no_space),
        ("headwater.tables.files.durable_io.DurableFile.create", no_space),
        (
            "headwater.tables.catalog.metadata_catalog.MetadataCatalog.commit_table",
            database_is_full,
        ),
    ],
    ids=["data files", "table metadata", "catalog"],
)
@pytest.mark.parametrize(
    "kind",
    [kind for kind in some(KINDS, (COMPACT, COPIES)) if kind.has_table],
    ids=lambda kind: kind.name,
)
async def test_a_full_disk_is_one_line_and_the_job_is_taken_up_later(
    cluster: PipelineCluster,
    monkeypatch: pytest.MonkeyPatch,
    kind: JobKind,
    place: str,
    failure: Callable[..., None],
) -> None:
    subject = Subject(cluster, kind)
    before = await subject.prepare(20)
    with monkeypatch.context() as full:
        full.setattr(place, failure)
        tally.faults.add("a full disk")
        lines: list[str] = []
        async with cluster.open() as opened:
            compactor = make_compactor(opened)
            try:
                lines = (await getattr(compactor, kind.method)([subject.topic])).failures
            except StoreError as error:
                lines = [str(error)]
            compactor.close()
    assert lines
    assert all("no space left" in line.lower() and "\n" not in line for line in lines), lines
    assert cluster.consume(subject.topic) == before
    await subject.finish()
    await subject.check(before)
