"""What a check finds in clusters that are whole, at work, or damaged in one place."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headwater.log.formats.metadata_values import (
    PARQUET,
    WAL,
    IndexEntry,
    Layout,
    ObjectRecord,
    Release,
)
from headwater.log.jobs.jobs import Job
from headwater.log.jobs.steps import JobSteps
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.values import decode, encode
from headwater.pipeline.cluster_stores import ClusterStores, open_cluster_stores
from headwater.pipeline.fsck.cluster_check import ClusterCheck
from headwater.pipeline.fsck.repair import repair
from headwater.pipeline.fsck.report import FindingKind, Report
from headwater.pipeline.metadata_reads import StoredTopic, read_topics
from headwater.pipeline.spark.runner import Runner
from headwater.tables.settings import TableSettings
from tests.support.pipeline.cluster import (
    InProcessRunner,
    PipelineCluster,
    address_of,
    make_compactor,
    start_cluster,
)
from tests.support.waiting import eventually
from tests.system.spark.conftest import SharedSpark

COMMAND = Path(sys.executable).with_name("headwater")
EAGER = LogSettings(orphan_grace_ms=0, gc_grace_ms=0, gc_interval_ms=0)
TOPIC = "checked"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster whose broker has stopped: one topic, its beginning compacted."""
    data = tmp_path_factory.mktemp("fsck") / "data"
    running = start_cluster(data)
    try:
        running.create_topic(TOPIC, partitions=2)
        running.produce(TOPIC, 600, partitions=2)
        asyncio.run(_compact(running))
        running.produce(TOPIC, 600, partitions=2, seed=1)
        asyncio.run(eventually(lambda: _nothing_waits(running)))
    finally:
        running.server.stop()
    shutil.copytree(data, data.with_name("kept"))
    return data


async def _compact(running: PipelineCluster) -> None:
    await running.compact(TOPIC)


async def _nothing_waits(running: PipelineCluster) -> bool:
    """The broker has deleted what compaction replaced."""
    async with running.open() as place:
        return not (await place.meta.scan(keys.releases(0), keys.releases(0) + "~")).entries


@pytest.fixture
def data(pristine: Path) -> Iterator[Path]:
    yield pristine
    # Tables know where they are: every test gets the same place.
    shutil.rmtree(pristine)
    shutil.copytree(pristine.with_name("kept"), pristine)


@pytest.fixture
async def place(data: Path) -> AsyncIterator[ClusterStores]:
    async with open_cluster_stores(address_of(data), TableSettings()) as opened:
        yield opened


async def check(place: ClusterStores, *, runner: Runner | None = None) -> Report:
    return await ClusterCheck(place, EAGER, runner=runner).check()


async def kinds(place: ClusterStores, *, runner: Runner | None = None) -> set[FindingKind]:
    return {finding.kind for finding in (await check(place, runner=runner)).findings}


async def topic_of(place: ClusterStores) -> StoredTopic:
    (topic,) = await read_topics(place.meta, [TOPIC])
    return topic


async def entry_of(place: ClusterStores, kind: int) -> tuple[int, IndexEntry]:
    """A stream and the last of its entries of this kind."""
    found = None
    topic = await topic_of(place)
    for stream in topic.streams:
        for entry in await entries_of(place, stream):
            if entry.kind == kind:
                found = stream, entry
    assert found is not None
    return found


async def entries_of(place: ClusterStores, stream: int) -> list[IndexEntry]:
    prefix = keys.index(0, stream)
    stored = (await place.meta.scan(prefix, prefix + "~")).entries
    return [decode(IndexEntry, each.value) for each in stored]


async def write(meta: MetadataStore, puts: dict[str, bytes], deletes: tuple[str, ...] = ()) -> None:
    def decide(_values: Values) -> tuple[Writes, None]:
        writes = Writes()
        for key, value in puts.items():
            writes.put(key, value)
        for key in deletes:
            writes.delete(key)
        return writes, None

    await meta.transact(0, [], decide)


def file_of(data: Path, key: str) -> Path:
    return data / "objects" / key


async def test_a_whole_cluster_has_no_findings(place: ClusterStores) -> None:
    report = await check(place, runner=InProcessRunner())
    assert report.findings == []
    assert (report.topics, report.streams, report.tables, report.records_read) == (1, 2, 1, 1200)
    assert report.files == 2


async def test_a_cluster_at_work_has_no_findings(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = cluster.create_topic(partitions=2)
    cluster.produce(topic, 200, partitions=2)
    work = asyncio.create_task(asyncio.to_thread(_work, cluster, topic))
    settings = LogSettings(gc_grace_ms=60_000)
    while not work.done():
        async with cluster.open() as place:
            report = await ClusterCheck(place, settings, runner=InProcessRunner()).check()
            assert not [each for each in report.findings if topic in each.subject + each.problem]
    await work
    async with cluster.open() as place:
        report = await ClusterCheck(place, settings, runner=spark).check()
        assert not [each for each in report.findings if topic in each.subject]
        assert report.records_read >= 800


def _work(cluster: PipelineCluster, topic: str) -> None:
    for seed in range(3):
        asyncio.run(cluster.compact(topic))
        cluster.produce(topic, 200, partitions=2, seed=seed)
        cluster.delete_records(topic, 0, 20 * (seed + 1))


@pytest.mark.parametrize("kind", [WAL, PARQUET])
async def test_a_missing_object_is_found(place: ClusterStores, data: Path, kind: int) -> None:
    _, entry = await entry_of(place, kind)
    file_of(data, entry.key).unlink()
    assert FindingKind.MISSING in await kinds(place)


@pytest.mark.parametrize("kind", [WAL, PARQUET])
async def test_an_object_that_was_cut_is_found(place: ClusterStores, data: Path, kind: int) -> None:
    _, entry = await entry_of(place, kind)
    os.truncate(file_of(data, entry.key), entry.position + entry.length - 1)
    assert await kinds(place) == {FindingKind.DAMAGED}


@pytest.mark.parametrize("kind", [WAL, PARQUET])
async def test_a_flipped_byte_is_found_by_a_deep_check(
    place: ClusterStores, data: Path, kind: int
) -> None:
    _, entry = await entry_of(place, kind)
    with file_of(data, entry.key).open("r+b") as file:
        file.seek(entry.position + entry.length // 3)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x40]))
    assert await kinds(place) == set()
    assert await kinds(place, runner=InProcessRunner()) == {FindingKind.DAMAGED}


async def test_a_hole_in_an_index_is_found(place: ClusterStores) -> None:
    stream, entry = await entry_of(place, WAL)
    await write(place.meta, {}, (keys.index_entry(0, stream, entry.end),))
    report = await check(place)
    problems = {finding.kind: finding.problem for finding in report.findings}
    assert problems[FindingKind.INDEX] == f"no entry has [{entry.start}, {entry.end})"
    assert FindingKind.LEAKED in problems


async def test_an_object_that_could_be_deleted_is_found(place: ClusterStores) -> None:
    stream, entry = await entry_of(place, WAL)
    key = keys.object_record(0, entry.key, entry.part)
    stored = await place.meta.get(key)
    assert stored is not None
    record = decode(ObjectRecord, stored.value)
    record.live.remove(stream)
    await write(place.meta, {key: encode(record)})
    assert await kinds(place) == {FindingKind.UNGUARDED}


async def test_a_table_that_lacks_a_file_of_the_log_is_found(place: ClusterStores) -> None:
    from headwater.tables.commit.changes import remove_files

    _, entry = await entry_of(place, PARQUET)
    remove_files(place.tables.table(await topic_of(place)), [entry.key])
    (finding,) = (await check(place)).findings
    assert (finding.kind, finding.problem) == (
        FindingKind.TABLE,
        f"it lacks {entry.key}, which is in the log",
    )


async def test_a_table_with_a_file_that_the_log_lacks_is_found(place: ClusterStores) -> None:
    stream, entry = await entry_of(place, PARQUET)
    await write(place.meta, {}, (keys.index_entry(0, stream, entry.end),))
    problems = [f.problem for f in (await check(place)).findings if f.kind == FindingKind.TABLE]
    assert problems == [f"it has {entry.key}, which is not in the log"]


async def test_orphans_are_deleted_past_their_grace_time_only(
    place: ClusterStores, data: Path
) -> None:
    topic = await topic_of(place)
    name = f"{0:020d}-{5:020d}-{'0' * 32}-lost.parquet"
    lost = file_of(data, f"tables/{topic.id}/data/0/{name}")
    lost.write_bytes(b"half")
    ours = file_of(data, "warehouse/own/data.parquet")
    ours.parent.mkdir(parents=True)
    ours.write_bytes(b"a user's own")
    young = await ClusterCheck(place, LogSettings()).check()
    assert (young.findings, young.waiting) == ([], 1)
    report = await check(place)
    assert {finding.kind for finding in report.findings} == {FindingKind.ORPHAN}
    compactor = make_compactor(place)
    await repair(place, EAGER, report, compactor)
    compactor.close()
    assert await kinds(place) == set()
    assert not lost.exists()
    assert ours.exists()


async def test_an_abandoned_job_is_finished(place: ClusterStores) -> None:
    topic = await topic_of(place)
    stream, entry = await entry_of(place, WAL)
    waiting = [each for each in await entries_of(place, stream) if each.kind != PARQUET]
    steps = JobSteps(place.meta, place.clock)
    job = Job(
        id="e" * 32,
        kind="compact",
        stream=stream,
        topic=TOPIC,
        topic_id=topic.id,
        partition=topic.streams.index(stream),
        start=waiting[0].start,
        end=entry.end,
        created_ms=0,
    )
    await steps.create(job, await steps.generation(stream))
    report = await check(place)
    (finding,) = report.findings
    assert (finding.kind, finding.repairable) == (FindingKind.JOB, True)
    compactor = make_compactor(place)
    done = await repair(place, EAGER, report, compactor)
    compactor.close()
    assert done == ["jobs finished: 1"]
    assert await steps.open_jobs() == []
    # What it replaced is released, and not yet due.
    assert (await ClusterCheck(place, LogSettings()).check()).findings == []


async def test_a_release_that_is_long_due_is_applied(place: ClusterStores, data: Path) -> None:
    stream, entry = await entry_of(place, WAL)
    stored = await place.meta.get(keys.layout(0, stream))
    layout = Layout() if stored is None else decode(Layout, stored.value)
    layout.log_start = entry.end
    noted = Release(chunks=[(entry.key, entry.part, stream)], released_ms=1)
    entries = await place.meta.scan(keys.index(0, stream), keys.index(0, stream) + "~")
    await write(
        place.meta,
        {keys.layout(0, stream): encode(layout), f"{keys.releases(0)}test": encode(noted)},
        tuple(each.key for each in entries.entries if each.key.endswith(f"{entry.end:020d}")),
    )
    report = await check(place)
    assert FindingKind.RELEASE in {finding.kind for finding in report.findings}
    compactor = make_compactor(place)
    await repair(place, EAGER, report, compactor)
    compactor.close()
    assert FindingKind.RELEASE not in await kinds(place)


def test_the_command_ends_with_one_where_something_is_wrong(data: Path) -> None:
    whole = _fsck(data)
    assert whole.returncode == 0, whole.stderr
    assert "Checked 1 topic, 2 partitions" in whole.stdout
    for file in (data / "objects" / "wal").glob("*/*"):
        os.truncate(file, 10)
    damaged = _fsck(data, "--json")
    assert damaged.returncode == 1
    report = json.loads(damaged.stdout)
    assert {each["kind"] for each in report["findings"]} == {"damaged-object"}


def _fsck(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "fsck", "--data", data, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
