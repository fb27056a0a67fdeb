"""Mending what a check found, where that can lose nothing.

- Orphans past their grace time are deleted, and releases that are due are applied, by the
  brokers' own garbage collector and under its guards.
- Jobs that nobody works on are carried through.

Everything else is left to people: it is data that is not where it should be.
"""

from headwater.log.reclaim.garbage import GarbageCollector
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.pipeline.cluster_stores import ClusterStores
from headwater.pipeline.compaction.compactor import Compactor
from headwater.pipeline.fsck.report import FindingKind, Report


async def repair(
    stores: ClusterStores, settings: LogSettings, report: Report, compactor: Compactor
) -> list[str]:
    """Mend what is repairable of a report; returns a line for each thing that was done."""
    wanted = {finding.kind for finding in report.findings if finding.repairable}
    done: list[str] = []
    if FindingKind.JOB in wanted:
        summary = await compactor.finish()
        done.append(f"jobs finished: {summary.jobs}")
        done += summary.failures
    collector = GarbageCollector(
        stores.meta, stores.objects, stores.reclaimer, settings, stores.clock
    )
    if FindingKind.RELEASE in wanted:
        done.append(f"released objects deleted: {await collector.collect_released()}")
    if FindingKind.ORPHAN in wanted:
        # All count as living: which broker is gone is for the other brokers to find out.
        living = [
            entry.key.removeprefix(keys.incarnations(0))
            async for entry in scan_all(stores.meta, keys.incarnations(0))
        ]
        deleted = await collector.collect_orphans(living) + await collector.collect_lost_files()
        done.append(f"orphans deleted: {deleted}")
    return done
