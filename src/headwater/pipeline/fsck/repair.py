"""Repairing findings of a check without data loss.

- The brokers' garbage collector deletes orphans past their grace time and released objects that
  are due, with its usual checks.
- Abandoned jobs are finished.

Other findings are damaged or missing data, and are not repaired.
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
    """Repair the repairable findings; returns a line for each repair."""
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
        # All incarnations count as living: only brokers decide which one is gone.
        living = [
            entry.key.removeprefix(keys.incarnations(0))
            async for entry in scan_all(stores.meta, keys.incarnations(0))
        ]
        deleted = await collector.collect_orphans(living) + await collector.collect_lost_files()
        done.append(f"orphans deleted: {deleted}")
    return done
