"""Runs the transactions of jobs; the rules are in ``jobs`` and ``swap``."""

from collections.abc import Collection, Sequence

from headwater.clock import Clock
from headwater.log.formats.metadata_values import Layout
from headwater.log.jobs.jobs import (
    CREATED,
    DataFile,
    Job,
    Manifest,
    check_manifest,
    create_job,
    creation_keys,
    finish_job,
    fit_manifest,
    fix_manifest,
    give_up_job,
    mark_committed,
)
from headwater.log.jobs.swap import Rearranged, swap_files, swap_keys
from headwater.log.read.index import entries_between
from headwater.log.reclaim.reclaimer import Reason, Reclaimer
from headwater.log.reclaim.releases import object_keys
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.meta.store import MetadataStore
from headwater.meta.transactions import transact
from headwater.meta.values import decode

ATTEMPTS = 20
"""Attempts of a swap that conflicts with trims of the same stream."""


class JobSteps:
    """The calls of a driver of the pipeline, in order. Every call may be repeated.

    A step returns None if the job is over: another process finished it, or its topic was deleted.
    All raise ``RequestTimedOut``, ``KafkaStorageError`` or ``StoreError`` if the metadata store
    does not answer or fails; then the job is continued later.
    """

    def __init__(self, meta: MetadataStore, clock: Clock) -> None:
        self._meta = meta
        self._clock = clock

    async def open_jobs(self) -> list[Job]:
        """Every open job, by stream."""
        return [decode(Job, entry.value) async for entry in scan_all(self._meta, keys.jobs(0))]

    async def get(self, stream: int) -> Job | None:
        """The stream's open job."""
        stored = await self._meta.get(keys.job(0, stream))
        return None if stored is None else decode(Job, stored.value)

    async def generation(self, stream: int) -> int:
        """The layout's generation. Read it before the index from which a job is planned."""
        stored = await self._meta.get(keys.layout(0, stream))
        return 0 if stored is None else decode(Layout, stored.value).generation

    async def create(self, job: Job, generation: int) -> Job | None:
        """Open a job. Returns the stream's open job if it has one, None if the plan is stale.

        Its range begins and ends where index entries do.
        """
        return await transact(self._meta, creation_keys(job.stream), create_job(job, generation))

    async def fix(
        self,
        job: Job,
        files: Sequence[DataFile],
        set_aside: Sequence[tuple[int, int, str]] = (),
        copies: Sequence[DataFile] = (),
    ) -> Job | None:
        """Fix the manifest. If the result is None or has other files, another attempt has won.

        The caller must ``discard`` its files that are not in the result. If the store takes only
        the first part of a manifest, the job ends early with that part. Raises
        ``ManifestTooLarge``, and ``ValueError`` if files and quarantined ranges do not cover the
        job's range, or if a quarantined range covers only a part of an entry.
        """
        if await self._cuts_an_entry(job, set_aside):
            there = await self.get(job.stream)
            # If the job is over, the range has other entries, and this manifest is not needed.
            if there is not None and there.id == job.id and there.state == CREATED:
                raise ValueError(f"job {job.id} sets index entries aside in part: {set_aside}")
        # The whole manifest is checked; only the store's limits may cut it.
        check_manifest(job, files, set_aside)
        manifest = fit_manifest(Manifest(files, set_aside, copies), self._meta.limits.operations)
        decide = fix_manifest(job, manifest, self._clock.now_ms())
        return await transact(self._meta, [keys.job(0, job.stream)], decide)

    async def _cuts_an_entry(self, job: Job, set_aside: Sequence[tuple[int, int, str]]) -> bool:
        if not set_aside:
            return False
        return any(
            [
                start < entry.end
                and entry.start < end
                and not start <= entry.start < entry.end <= end
                async for entry in entries_between(self._meta, job.stream, job.start, job.end)
                for start, end, _ in set_aside
            ]
        )

    async def mark_committed(self, job: Job) -> Job | None:
        """Call it when the table has the manifest, or if the job's files go into no table."""
        return await transact(self._meta, [keys.job(0, job.stream)], mark_committed(job))

    async def swap(self, job: Job) -> Job | None:
        """Put the files into the index."""
        for attempt in range(ATTEMPTS):
            try:
                return await self._swap(job)
            except Rearranged:
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _swap(self, job: Job) -> Job | None:
        generation = await self.generation(job.stream)
        entries = []
        async for entry in entries_between(self._meta, job.stream, job.start, job.end):
            if not any(start <= entry.start < end for start, end, _ in job.set_aside):
                entry.data = None
            entries.append(entry)
        decide = swap_files(job, entries, generation, self._clock.now_ms())
        return await transact(self._meta, swap_keys(job.stream), decide)

    async def finish(self, job: Job) -> None:
        """Close a job whose files are in the index."""
        await transact(self._meta, [keys.job(0, job.stream)], finish_job(job))

    async def give_up(self, job: Job) -> Job | None:
        """Close a job without a manifest. Returns the job if another process has fixed one."""
        return await transact(self._meta, [keys.job(0, job.stream)], give_up_job(job))

    async def discard(self, job: Job, files: Collection[DataFile], reclaimer: Reclaimer) -> int:
        """Delete the given files that no manifest names; returns how many.

        While the job is CREATED nothing is deleted, because a manifest may still name them.
        """
        there = await self.get(job.stream)
        if there is not None and there.id == job.id and there.state == CREATED:
            return 0
        deleted = 0
        for file in files:
            for key in object_keys(file.kind, file.key):
                # Records are written with the manifest, so a file without one never gets one.
                if await self._meta.get(keys.object_record(0, key, 0)) is None:
                    await reclaimer.delete([key], Reason.DISCARDED_FILE)
                    deleted += 1
        return deleted
