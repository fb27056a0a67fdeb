"""``headwater serve``: run one broker, or several worker processes."""

import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import asyncio

    from headwater.config import Settings

    Beside = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
    """A coroutine function that runs until the event is set."""

_EPILOG = """\b
Examples:
  headwater serve
  headwater serve --data /var/lib/headwater --listen 0.0.0.0:9092 --advertise broker.example:9092
  headwater serve --workers 4 --metrics 127.0.0.1:9100
  headwater serve --catalog 127.0.0.1:8181 --compact
  headwater serve --objects s3://bucket/prefix --config headwater.yaml

docs/reference/configuration.md describes all settings.
"""

_FLAGS = {
    "data": "data",
    "listen": "broker.listen",
    "advertise": "broker.advertise",
    "metadata": "metadata",
    "objects": "objects",
    "broker_id": "broker.id",
    "workers": "broker.workers",
    "metrics": "metrics.listen",
    "catalog": "tables.catalog_listen",
    "log_format": "logging.format",
    "log_level": "logging.level",
}
"""The setting that each flag sets."""


@click.command(epilog=_EPILOG)
@click.option("--data", metavar="DIR", help="Directory of the embedded stores.  [./headwater-data]")
@click.option("--listen", metavar="HOST:PORT", help="Listener address.  [127.0.0.1:9092]")
@click.option(
    "--advertise", metavar="HOST:PORT", help="Address that clients connect to.  [--listen]"
)
@click.option(
    "--metadata",
    metavar="URL",
    help="sqlite:///FILE, etcd://…, postgres://…, oxia://… or memory://.  [in --data]",
)
@click.option(
    "--objects",
    metavar="URL",
    help="file:///DIR, s3://BUCKET, gs://BUCKET, az://CONTAINER or memory://.  [in --data]",
)
@click.option("--broker-id", metavar="N", help="Broker id; worker K has N + K.  [1]")
@click.option("--workers", metavar="N", help="Broker processes, on consecutive ports.  [1]")
@click.option(
    "--metrics", metavar="HOST:PORT", help="Serve /metrics, /healthz, /readyz and /status.json."
)
@click.option("--catalog", metavar="HOST:PORT", help="Serve the tables as an Iceberg REST catalog.")
@click.option("--compact", is_flag=True, help="Also compact topics into tables, on Spark.")
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="YAML file with settings."
)
@click.option("--log-format", type=click.Choice(["auto", "json", "text"]), help="[auto]")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="[info]"
)
@click.option("--supervised", is_flag=True, hidden=True)
def serve(config: Path | None, *, compact: bool, supervised: bool, **flags: str | None) -> None:
    """Run a broker until it is interrupted."""
    from headwater.config import load
    from headwater.telemetry import logs

    given = {_FLAGS[flag]: value for flag, value in flags.items() if value is not None}
    settings = load(config, os.environ, given)
    logs.configure(settings.logging.format, settings.logging.level)
    beside = _compaction(settings, config) if compact and not supervised else _nothing
    if settings.broker.workers > 1:
        _supervise(settings, beside)
    else:
        _run_broker(settings, beside, supervised=supervised)


def _compaction(settings: "Settings", config: Path | None) -> "Beside":
    from headwater.app.compaction import check_compaction, keep_compacting

    check_compaction(settings)
    return partial(keep_compacting, settings, config)


async def _nothing(_stop: "asyncio.Event") -> None:
    """Run nothing beside the broker."""


def _run_broker(settings: "Settings", beside: "Beside", *, supervised: bool) -> None:
    import asyncio

    import uvloop

    from headwater.app.assembly import BrokerProcess
    from headwater.app.signals import stop_on_signals, stop_with_parent
    from headwater.app.workers import WorkerCannotContinue
    from headwater.broker.network.connection_limits import raise_descriptor_limit
    from headwater.cli.root import first_of
    from headwater.errors import ConfigurationError

    raise_descriptor_limit()

    async def main() -> None:
        stop, start = asyncio.Event(), asyncio.current_task()
        started = False

        def end() -> None:
            stop.set()
            if start is not None and not started:
                start.cancel()  # it may be waiting for a store

        stop_on_signals(end)
        if supervised:
            stop_with_parent(end)
        async with BrokerProcess(settings) as broker:
            started = True
            if supervised:
                click.echo("ready")
            else:
                _welcome(settings, [str(broker.address)])
            _tune_collector()
            other = asyncio.create_task(beside(stop))
            try:
                await broker.run(stop)
            except (ConfigurationError, BaseExceptionGroup) as error:
                if not supervised or (reason := first_of(error, ConfigurationError)) is None:
                    raise
                raise WorkerCannotContinue(str(reason)) from error
            finally:
                stop.set()
                await other

    with (
        suppress(asyncio.CancelledError),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(main())


def _tune_collector() -> None:
    """Collect garbage less often: objects of the start stay, and requests create few cycles."""
    import gc

    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _supervise(settings: "Settings", beside: "Beside") -> None:
    import asyncio

    from headwater.app.signals import stop_on_signals
    from headwater.app.workers import Supervisor, command_line, worker_flags
    from headwater.config import HostPort

    arguments = sys.argv[1:]
    count = settings.broker.workers
    commands = [
        command_line([*arguments, *worker_flags(settings, number)]) for number in range(count)
    ]
    listen = HostPort.parse(settings.broker.listen)

    async def main() -> None:
        supervisor = Supervisor(commands)
        stop = asyncio.Event()

        def end() -> None:
            supervisor.stop()
            stop.set()

        stop_on_signals(end)
        async with asyncio.TaskGroup() as group:
            group.create_task(beside(stop))
            announced = group.create_task(supervisor.wait_ready())
            announced.add_done_callback(
                lambda task: (
                    None
                    if task.cancelled()
                    else _welcome(settings, [str(listen.shifted(n)) for n in range(count)])
                )
            )
            await supervisor.run()
            stop.set()
            announced.cancel()

    asyncio.run(main())


def _welcome(settings: "Settings", addresses: list[str]) -> None:
    """Print the addresses, the data directory and a first command."""
    from headwater.meta.urls import without_password

    where = ", ".join(addresses)
    data = settings.data
    if settings.metadata and settings.objects:
        data = without_password(settings.metadata)
    click.echo(
        f"Headwater listens on {where}, data in {data}. "
        f"Try: echo hello | headwater produce -b {addresses[0]} greetings"
    )
    sys.stdout.flush()
