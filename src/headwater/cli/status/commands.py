"""``headwater status``: counts from the metadata store and from brokers' status pages."""

import asyncio
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.status.cost import (
    EXAMPLE,
    S3_STANDARD,
    BrokerLoad,
    Line,
    Prices,
    bill,
    daily_load,
    print_bill,
)
from headwater.cli.store_options import store_options
from headwater.cli.terminal.output import as_json, byte_size, print_json, print_table

if TYPE_CHECKING:
    from headwater.broker.cluster.membership import Registration
    from headwater.cli.status.survey import Survey
    from headwater.config import Settings

_PAGE_TIMEOUT = 2.0
_PAGE_BYTES = 1 << 20
_PRICE = click.FloatRange(min=0)


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A registered broker, and its status page if it serves one."""

    id: int
    address: str
    rack: str | None
    page: dict[str, Any] | None


_EPILOG = """\b
Examples:
  headwater status --data /var/lib/headwater --json
  headwater status --metadata etcd://127.0.0.1:2379/cluster
  headwater status --cost --price-storage 0.0245 --price-put 0.0054 --price-get 0.00043
"""


@click.command(epilog=_EPILOG)
@click.option("--cost", is_flag=True, help="Estimate the monthly cost of the object store.")
@click.option(
    "--price-storage",
    type=_PRICE,
    default=S3_STANDARD.storage,
    show_default=True,
    metavar="DOLLARS",
    help="Per gigabyte and month.",
)
@click.option(
    "--price-put",
    type=_PRICE,
    default=S3_STANDARD.writes,
    show_default=True,
    metavar="DOLLARS",
    help="Per thousand PUT and LIST requests.",
)
@click.option(
    "--price-get",
    type=_PRICE,
    default=S3_STANDARD.reads,
    show_default=True,
    metavar="DOLLARS",
    help="Per thousand GET requests.",
)
@as_json
@store_options
def status(
    settings: "Settings",
    price_storage: float,
    price_put: float,
    price_get: float,
    *,
    cost: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Show a cluster's brokers, data and requests to its stores.

    The counts come from the metadata store and need no broker. Requests and their cost are shown
    for brokers that serve --metrics.
    """
    brokers, found = asyncio.run(_look(settings.metadata_url))
    costs = _costs(brokers, found, Prices(price_storage, price_put, price_get)) if cost else None
    if as_json:
        answer = {"brokers": [asdict(each) for each in brokers], "stored": asdict(found)}
        print_json(answer if costs is None else {**answer, "cost": asdict(costs)})
    else:
        _print(brokers, found)
        if costs is not None:
            print_bill(costs.own, costs.example, costs.load, paid=costs.paid)
            if costs.brokers < len(brokers):
                click.echo(
                    f"Only {costs.brokers} of {len(brokers)} brokers are included; the others do "
                    "not serve --metrics or do not answer."
                )


@dataclass(frozen=True, slots=True)
class Costs:
    """A cluster's load and bill, and the bill of a well-known example at the same prices."""

    brokers: int
    """The number of brokers that are included."""
    paid: bool
    prices: Prices
    load: BrokerLoad
    own: list[Line]
    example: list[Line]


def _costs(brokers: list[BrokerStatus], found: "Survey", prices: Prices) -> Costs:
    pages = [broker.page for broker in brokers if broker.page is not None]
    load = daily_load(pages, found.wal_bytes + found.file_bytes)
    if load is None:
        raise click.ClickException(
            "no broker reports its requests to the object store; "
            "start brokers with --metrics HOST:PORT"
        )
    paid = any(page.get("object_store_id") not in ("local", "memory") for page in pages)
    return Costs(len(pages), paid, prices, load, bill(load, prices), bill(EXAMPLE, prices))


async def _look(url: str) -> tuple[list[BrokerStatus], "Survey"]:
    from headwater.broker.cluster.membership import Registration
    from headwater.cli.cluster.facts import opened
    from headwater.cli.status.survey import survey
    from headwater.meta import keys
    from headwater.meta.scan import scan_all
    from headwater.meta.values import decode

    async with opened(url) as meta:
        registered = [
            (int(entry.key.removeprefix(keys.BROKERS)), decode(Registration, entry.value))
            async for entry in scan_all(meta, keys.BROKERS)
        ]
        brokers = await asyncio.gather(*(_broker(*each) for each in registered))
        return brokers, await survey(meta)


async def _broker(broker_id: int, registration: "Registration") -> BrokerStatus:
    page = None
    if registration.metrics is not None:
        page = await _read_page(registration.metrics)
    address = f"{registration.host}:{registration.port}"
    return BrokerStatus(broker_id, address, registration.rack, page)


async def _read_page(address: str) -> dict[str, Any] | None:
    """A broker's ``/status.json``; None if it does not answer."""
    from headwater.config import HostPort

    where = HostPort.parse(address)
    try:
        async with asyncio.timeout(_PAGE_TIMEOUT):
            reader, writer = await asyncio.open_connection(where.host, where.port)
            writer.write(f"GET /status.json HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
            answer = await reader.read(_PAGE_BYTES)
            while chunk := await reader.read(_PAGE_BYTES - len(answer)):
                answer += chunk
            writer.close()
            page: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
            return page
    except (OSError, TimeoutError, ValueError):
        return None


def _print(brokers: list[BrokerStatus], found: "Survey") -> None:
    click.echo(f"Cluster {found.cluster_id or '(no broker has run here yet)'}")
    print_table(
        ["Broker", "Address", "Clients", "Commits", "PUTs", "GETs", "Written", "Read", "Objects"],
        [_row(broker) for broker in brokers],
        title="Live brokers" if brokers else "No live brokers",
    )
    inline = f"{found.inline_entries} inline, {byte_size(found.inline_bytes)}"
    print_table(
        ["Stored", ""],
        [
            ("Topics", f"{found.topics}"),
            ("Streams (partitions)", f"{found.streams}"),
            ("Records produced", f"{found.records_produced}"),
            ("Index entries", f"{found.index_entries} ({inline})"),
            ("WAL objects", f"{found.wal_objects} ({byte_size(found.wal_bytes)})"),
            ("Compacted files", f"{found.files} ({byte_size(found.file_bytes)})"),
        ],
    )


def _row(broker: BrokerStatus) -> tuple[object, ...]:
    if broker.page is None:
        return (broker.id, broker.address, None, None, None, None, None, None, None)
    objects = broker.page["objects"]
    return (
        broker.id,
        broker.address,
        broker.page["connections"],
        broker.page["commits"],
        objects["puts"],
        objects["gets"],
        byte_size(objects["bytes_written"]),
        byte_size(objects["bytes_read"]),
        broker.page.get("object_store"),
    )
