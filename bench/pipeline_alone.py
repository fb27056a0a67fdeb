"""What the pipeline costs Headwater itself: fetches, neighbours, and commits as a table ages."""

import os
import time
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import msgspec
from rich.console import Console

from bench.clients import perf
from bench.peer import HEADWATER, Peer
from bench.pipeline_figures import ROUNDS, Comparison, shown
from bench.pipeline_process import PipelineWorker, fill, pinned
from headwater.log.jobs.jobs import DataFile, Job, data_file_key
from headwater.pipeline.compaction.chunks import decode_all
from headwater.pipeline.compaction.planner import COMPACT
from headwater.pipeline.compaction.table_commits import TableCommits
from headwater.pipeline.metadata_reads import StoredTopic
from headwater.tables.files.parquet import FileTarget, write_range
from headwater.tables.settings import TableSettings
from headwater.wire.batches.records import Record, encode_batch

PARTITIONS = 3
SIZE = 1000
MEGABYTES = "MB/s"
FETCHED, QUICK_FETCHED = 500_000, 100_000
WARM_UP = 30_000
BROKER_CORE, PIPELINE_CORE = 0, 1
YOUNG, OLD = 10, 1000
AROUND = 5
"""So many commits before and after the tenth and the thousandth are counted with them."""


def filled(peer: Peer, records: int) -> str:
    topic = peer.create_topic(PARTITIONS)
    fill(peer.bootstrap, topic, partitions=PARTITIONS, records=records, size=SIZE)
    return topic


def drain(peer: Peer, topic: str, records: int) -> float:
    return float(perf("consume", peer.bootstrap, topic, PARTITIONS, records)["mb_per_second"])


def fetch(console: Console, directory: Path, *, quick: bool) -> object:
    """The same topic by librdkafka before and after compaction, each time after a restart."""
    records = QUICK_FETCHED if quick else FETCHED
    figures = Comparison("fetch from Parquet", MEGABYTES, "fetch from WAL", 0.5)
    with ExitStack() as stack:
        peer = Peer(HEADWATER, directory / "pipeline-fetch")
        stack.callback(peer.stop)
        worker = PipelineWorker("plain", peer.data, log=directory / "plain.log")
        stack.enter_context(worker)
        warm = filled(peer, WARM_UP)
        worker.ask(topic=warm)

        def rate(topic: str) -> float:
            peer.restart()
            # The broker loads Arrow with its first row group.
            drain(peer, warm, WARM_UP)
            return drain(peer, topic, records)

        for _ in range(1 if quick else ROUNDS):
            topic = filled(peer, records)
            figures.theirs.append(rate(topic))
            worker.ask(topic=topic)
            figures.ours.append(rate(topic))
            peer.delete_topic(topic)
    return shown(console, "Fetch from Parquet and from WAL", [figures])


def neighbours(console: Console, directory: Path, *, quick: bool) -> object:
    """Produce and fetch of one topic while another is compacted on the other core.

    The Spark job of the compaction is run again and again until the clients are done.
    """
    if len(os.sched_getaffinity(0)) < 2:
        raise RuntimeError("this needs two cores")
    records = QUICK_FETCHED if quick else FETCHED
    produced = Comparison("produce beside a compaction", MEGABYTES, "produce alone", 0.85)
    fetched = Comparison("fetch beside a compaction", MEGABYTES, "fetch alone", 0.85)
    flag = directory / "compacting"
    with ExitStack() as stack:
        with pinned(BROKER_CORE):
            peer = Peer(HEADWATER, directory / "pipeline-neighbours")
        stack.callback(peer.stop)
        with pinned(PIPELINE_CORE):
            worker = PipelineWorker("compaction", peer.data, log=directory / "compaction.log")
        stack.enter_context(worker)
        stack.callback(flag.unlink, missing_ok=True)
        worker.ask(topic=filled(peer, WARM_UP))

        def rates() -> tuple[float, float]:
            topic = peer.create_topic(PARTITIONS)
            with pinned(BROKER_CORE):
                made = perf(
                    "produce", peer.bootstrap, topic, PARTITIONS, records, SIZE, 0, "acks=all"
                )["mb_per_second"]
                read = drain(peer, topic, records)
            peer.delete_topic(topic)
            return float(made), read

        def alone() -> None:
            made, read = rates()
            produced.theirs.append(made)
            fetched.theirs.append(read)

        def beside() -> None:
            topic = filled(peer, records)
            flag.touch()
            worker.begin(topic=topic, while_there=str(flag))
            time.sleep(1)
            made, read = rates()
            flag.unlink()
            worker.answer()
            peer.delete_topic(topic)
            produced.ours.append(made)
            fetched.ours.append(read)

        rates()
        for number in range(1 if quick else ROUNDS):
            for way in (alone, beside) if number % 2 == 0 else (beside, alone):
                way()
    return shown(console, "Other topics while a compaction runs", [produced, fetched])


def commits(console: Console, directory: Path, *, quick: bool) -> object:
    """A commit of eight files, with the upkeep that follows it, in a table young and old."""
    old = 100 if quick else OLD
    folder = directory / "pipeline-commits"
    (folder / "objects").mkdir(parents=True)
    objects_url = f"file://{folder}/objects"
    tables = TableCommits(
        TableSettings(),
        data=folder,
        metadata_url=f"sqlite:///{folder}/metadata.db",
        objects_url=objects_url,
        cluster_id="bench",
    )
    topic = StoredTopic(id=str(uuid4()), name="commits", streams=tuple(range(1, 9)), configs={})
    template = _write(objects_url)
    seconds = [_commit(tables, topic, template, number) for number in range(old + AROUND + 1)]
    figures = Comparison(
        f"commit number {old}", "ms", f"commit number {YOUNG}", 2.0, less=True,
        ours=[1e3 * each for each in seconds[old - AROUND : old + AROUND + 1]],
        theirs=[1e3 * each for each in seconds[YOUNG - AROUND : YOUNG + AROUND + 1]],
    )  # fmt: skip
    return shown(console, "Commits as a table ages", [figures])


def _write(objects_url: str) -> DataFile:
    """One real file, whose statistics all others have too."""
    records = decode_all(bytearray(encode_batch([Record(0, 0, None, b"value")])), 0)
    target = FileTarget(
        objects_url=objects_url, key="tables/template.parquet", partition=0, start=0, end=1,
        notes={},
    )  # fmt: skip
    return write_range(records, target)


def _commit(tables: TableCommits, topic: StoredTopic, template: DataFile, number: int) -> float:
    """Append a file for each stream; the seconds that it took."""
    jobs = []
    for partition, stream in enumerate(topic.streams):
        job = Job(
            id=uuid4().hex, kind=COMPACT, stream=stream, topic=topic.name, topic_id=topic.id,
            partition=partition, start=number, end=number + 1, created_ms=0,
        )  # fmt: skip
        key = data_file_key(job, job.start, job.end, "0")
        job.files = [msgspec.structs.replace(template, key=key, start=job.start, end=job.end)]
        jobs.append(job)
    began = time.perf_counter()
    landed = tables.append(topic, jobs, {job.id: () for job in jobs}).landed
    tables.expire(topic, round(time.time() * 1000))
    seconds = time.perf_counter() - began
    if len(landed) != len(jobs):
        raise RuntimeError(f"{len(landed)} of {len(jobs)} jobs landed")
    return seconds
