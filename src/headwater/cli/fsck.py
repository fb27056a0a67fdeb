"""``headwater fsck``: check a cluster's metadata, objects and tables."""

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from headwater.cli.store_options import location_options
from headwater.cli.terminal.output import as_json, byte_size, counted, print_json, print_table

if TYPE_CHECKING:
    from headwater.config import Settings
    from headwater.pipeline.fsck.report import CheckWatcher, Report


@click.command(epilog="Examples: headwater fsck; headwater fsck --deep --json")
@click.option("--deep", is_flag=True, help="Also read and decode every record, on Spark.")
@click.option("--repair", is_flag=True, help="Repair what can be repaired without data loss.")
@click.option("--master", metavar="URL", help="Spark's master.  [local[*]]")
@as_json
@location_options
def fsck(
    settings: "Settings", *, deep: bool, repair: bool, master: str | None, as_json: bool
) -> None:
    """Check a cluster's indexes, objects, jobs and tables.

    Brokers can run at the same time. The exit code is 1 if there are findings. --repair deletes
    orphans past their grace time, deletes released objects that are due, and finishes abandoned
    jobs. Damaged or missing data is reported but not repaired.
    """
    from headwater.cli.table.running import run_to_end
    from headwater.cli.terminal.check_progress import CheckProgress
    from headwater.extras import require_extra

    require_extra("table", "this command")
    if deep:
        from headwater.pipeline.spark.session import check_spark

        check_spark()
    with CheckProgress(sys.stderr) as progress:
        report = run_to_end(_check(settings, progress, master, deep=deep, mend=repair))
    if as_json:
        print_json(report.as_json())
    else:
        _print_report(report)
    if report.findings:
        sys.exit(1)


async def _check(
    settings: "Settings", progress: "CheckWatcher", master: str | None, *, deep: bool, mend: bool
) -> "Report":
    from headwater.cli.table.running import location_of
    from headwater.pipeline.cluster_stores import open_cluster_stores
    from headwater.pipeline.compaction.compactor import Compactor
    from headwater.pipeline.fsck.cluster_check import ClusterCheck
    from headwater.pipeline.fsck.repair import repair
    from headwater.pipeline.spark.runner import SparkRunner

    own, log = settings.pipeline, settings.log
    async with open_cluster_stores(location_of(settings), settings.tables) as stores:
        runner = SparkRunner(master or own.master)
        try:
            checker = ClusterCheck(stores, log, runner=runner if deep else None, watcher=progress)
            report = await checker.check()
            if not mend or not any(finding.repairable for finding in report.findings):
                return report
            compactor = Compactor(
                meta=stores.meta,
                objects=stores.objects,
                reclaimer=stores.reclaimer,
                objects_url=stores.location.objects_url,
                clock=stores.clock,
                tables=stores.tables,
                runner=runner,
                settings=own,
            )
            try:
                done = await repair(stores, log, report, compactor)
            finally:
                compactor.close()
            report = await checker.check()
            report.repairs = done
            return report
        finally:
            await asyncio.to_thread(runner.close)


def _print_report(report: "Report") -> None:
    for line in report.repairs:
        click.echo(f"Repaired: {line}")
    if report.findings:
        print_table(
            ["What", "Where", "Problem", "Repair"],
            [
                (each.kind, each.subject, each.problem, "--repair" if each.repairable else "-")
                for each in report.findings
            ],
        )
    read = f", {counted(report.records_read, 'record')} read" if report.records_read else ""
    click.echo(
        f"Checked {counted(report.topics, 'topic')}, {counted(report.streams, 'partition')}, "
        f"{report.entries} index entries, {counted(report.objects, 'object')} of "
        f"{byte_size(report.object_bytes)}, {counted(report.tables, 'table')} and "
        f"{counted(report.jobs, 'job')}{read} in {report.seconds:.1f} s: "
        f"{counted(len(report.findings), 'finding')}."
    )
