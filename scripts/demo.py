"""``make demo``: one topic produced, compacted, and read by Kafka, Spark, pyiceberg and DuckDB.

Every step prints the command that it runs and what that command says, so that each can be typed
again. The data stays in ``demo-data`` until the next run; the broker ends with the demo.
"""

import json
import os
import random
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from peers.process import free_port, start

FOLDER: Final = Path("demo-data")
BIN: Final = Path(sys.executable).parent
RECORDS: Final = 200_000
LATE_RECORDS: Final = 1_000
PRICES: Final = {"tea": 3, "coffee": 4, "cake": 6, "bread": 5, "jam": 7}
CITIES: Final = ("Lima", "Oslo", "Pune", "Quito", "Turin")

BY_ITEM: Final = """\
SELECT o.item, count(*) AS orders, sum(o.amount) AS pieces, sum(o.amount * o.price) AS revenue
FROM (SELECT from_json(string(value), "item STRING, amount INT, price INT") AS o FROM orders)
GROUP BY o.item ORDER BY revenue DESC"""

READ_TABLE: Final = """\
from pyiceberg.catalog import load_catalog

catalog = load_catalog(type="rest", uri="http://{catalog}")
orders = catalog.load_table("headwater.orders").scan().to_duckdb("orders")
orders.sql('''
    SELECT partition, count(*) AS records, min("offset") AS first, max("offset") AS last
    FROM orders GROUP BY 1 ORDER BY 1
''').show()"""

began = time.monotonic()


def main() -> None:
    """Run all steps; ends with an error at the first that fails."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    broker, catalog = f"127.0.0.1:{_port(9092)}", f"127.0.0.1:{_port(8181)}"
    os.environ |= {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "HEADWATER_BOOTSTRAP": broker,
        "HEADWATER_DATA": str(FOLDER / "headwater"),
        "HEADWATER_LOGGING_LEVEL": "warning",
    }
    _write_orders(FOLDER / "orders.txt", RECORDS)
    _write_orders(FOLDER / "late.txt", LATE_RECORDS)

    _title("A broker, with an Iceberg REST catalog of its topics")
    _say(f"export HEADWATER_DATA={FOLDER / 'headwater'} HEADWATER_BOOTSTRAP={broker}")
    with _broker(f"headwater serve --listen {broker} --catalog {catalog}"):
        _title(f"A topic, and {RECORDS:,} orders in JSON through a Kafka client")
        _run("headwater topic create orders --partitions 4")
        _run(f"headwater produce orders {FOLDER / 'orders.txt'} --key-separator '|' --codec zstd")
        _run("headwater consume orders --count 3 --key-separator ' -> '")

        _title("Compact the log to Parquet files, which are an Iceberg table")
        _run("headwater table compact orders")
        _run("headwater table describe orders")

        _title("Read the same log through Kafka, now from Parquet, and produce more orders")
        _run("headwater consume orders --count 3 --key-separator ' -> '")
        _run(f"headwater produce orders {FOLDER / 'late.txt'} --key-separator '|'")

        _title("Query the topic in SQL: the table and the newest records")
        _run(f"headwater sql '{BY_ITEM}'")

        _title("Query the table through the REST catalog, with pyiceberg and DuckDB")
        _run_python(READ_TABLE.format(catalog=catalog))

    _title(f"Done in {time.monotonic() - began:.0f} s")
    click.echo(
        f"The data is in {FOLDER}. To go on with it:\n"
        f"  {os.path.relpath(BIN)}/headwater serve --data {FOLDER / 'headwater'} "
        f"--listen {broker} --catalog {catalog}"
    )


def _write_orders(file: Path, count: int) -> None:
    """The same orders in every run, one a line: the customer's name, ``|`` and JSON."""
    rng = random.Random(count)  # noqa: S311 - samples, no secrets
    with file.open("w") as out:
        for number in range(count):
            item = rng.choice(list(PRICES))
            order = {
                "id": number,
                "item": item,
                "amount": rng.randint(1, 9),
                "price": PRICES[item],
                "city": rng.choice(CITIES),
            }
            out.write(f"customer-{rng.randrange(5000)}|{json.dumps(order)}\n")


@contextmanager
def _broker(command: str) -> Iterator[None]:
    """Run a broker for as long as the block runs."""
    _say(f"{command} &")
    words = shlex.split(command)
    ports = [int(word.rpartition(":")[2]) for word in words if word.startswith("127.0.0.1:")]
    log = FOLDER / "broker.log"
    server = start(words, ports=ports, log=log)
    try:
        while not log.stat().st_size:  # it says where it listens once it does
            time.sleep(0.05)
        click.echo(log.read_text(), nl=False)
        yield
    finally:
        server.stop()


def _run(command: str) -> None:
    _say(command)
    _check(subprocess.run(shlex.split(command), check=False))  # noqa: S603 - our own command


def _run_python(source: str) -> None:
    _say("python <<END\n" + source + "\nEND")
    _check(subprocess.run([sys.executable, "-c", source], check=False))  # noqa: S603 - our own


def _check(done: subprocess.CompletedProcess[bytes]) -> None:
    if done.returncode != 0:
        sys.exit(f"The command failed; the broker's log is {FOLDER / 'broker.log'}.")


def _title(text: str) -> None:
    click.secho(f"\n── {text}\n", fg="cyan", bold=True)


def _say(command: str) -> None:
    click.secho(f"$ {command}", bold=True)


def _port(usual: int) -> int:
    """The usual port, or another one where somebody listens on it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", usual))
        except OSError:
            return free_port()
    return usual


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
