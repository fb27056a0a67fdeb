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
from headwater.pipeline.compaction.compactor import Compactor
from headwater.pipeline.fsck.report import Kind, Report
from headwater.pipeline.place import Place


async def repair(
    place: Place, settings: LogSettings, report: Report, compactor: Compactor
) -> list[str]:
    """Mend what is repairable of a report; returns a line for each thing that was done."""
    wanted = {finding.kind for finding in report.findings if finding.repairable}
    done: list[str] = []
    if Kind.JOB in wanted:
        summary = await compactor.finish()
        done.append(f"jobs finished: {summary.jobs}")
        done += summary.failures
    collector = GarbageCollector(place.meta, place.objects, place.reclaimer, settings, place.clock)
    if Kind.RELEASE in wanted:
        done.append(f"released objects deleted: {await collector.collect_released()}")
    if Kind.ORPHAN in wanted:
        # All count as living: which broker is gone is for the other brokers to find out.
        living = [
            entry.key.removeprefix(keys.incarnations(0))
            async for entry in scan_all(place.meta, keys.incarnations(0))
        ]
        deleted = await collector.collect_orphans(living) + await collector.collect_lost_files()
        done.append(f"orphans deleted: {deleted}")
    return done
