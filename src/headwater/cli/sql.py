"""``headwater sql``: Spark SQL over topics."""

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from headwater.cli.store_options import location_options
from headwater.cli.terminal.output import counted, print_table

if TYPE_CHECKING:
    from headwater.config import Settings

FORMATS = ("table", "csv", "json", "parquet")


@click.command(
    epilog="""Examples: headwater sql 'SELECT string(value) FROM orders LIMIT 10';
    headwater sql 'SELECT partition, count(*) FROM orders GROUP BY 1' --format csv"""
)
@click.argument("query")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Output format.  [table, or by the suffix of --output]",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write."
)
@click.option("--master", metavar="URL", help="Spark's master.  [local[*]]")
@location_options
def sql(
    settings: "Settings",
    *,
    query: str,
    form: str | None,
    output: Path | None,
    master: str | None,
) -> None:
    """Query topics in Spark SQL, including the newest records.

    Every topic is a table with the columns topic, partition, offset, timestamp, key, value,
    headers, producer_id, producer_epoch, base_sequence and attributes. Keys and values are bytes;
    string(value) converts them to text. Put a name such as page-views in backticks, and then the
    query in single quotes, because the shell would run text in backticks.
    """
    from headwater.pipeline.spark.session import check_spark, spark_session
    from headwater.pipeline.sql import SqlStores, check_reads, run_query, topic_names

    check_reads(query)
    form = form or _form_of(output)
    if form == "parquet" and output is None and sys.stdout.isatty():
        raise click.UsageError("Parquet cannot be printed on a terminal; name a file with --output")
    check_spark()
    stores = SqlStores(settings.metadata_url, settings.objects_url)
    topics = topic_names(stores)
    with _note("Starting Spark"), spark_session(master or settings.pipeline.master) as session:
        result = run_query(session, query, stores, topics)
    _write(result, form, output)
    if output is not None:
        click.echo(f"Wrote {counted(result.num_rows, 'row')} to {output}.", err=True)


def _form_of(output: Path | None) -> str:
    """The format for a file's suffix; raises ``UsageError`` for an unknown one."""
    ending = "" if output is None else output.suffix.removeprefix(".")
    if ending in ("", "txt"):
        return "table"
    if ending not in FORMATS:
        raise click.UsageError(
            f"there is no format for a .{ending} file; "
            f"choose one of {', '.join(FORMATS)} with --format"
        )
    return ending


@contextmanager
def _note(text: str) -> Iterator[None]:
    """Show a note on a terminal while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    click.echo(f"{text} …", err=True, nl=False)
    try:
        yield
    finally:
        click.echo("\r\033[K", err=True, nl=False)


def _write(result: Any, form: str, output: Path | None) -> None:
    try:
        if form == "parquet":
            _write_parquet(result, output)
        elif output is None:
            _write_text(result, form, sys.stdout)
        else:
            with output.open("w", encoding="utf-8", newline="") as file:
                _write_text(result, form, file)
    except OSError as error:
        raise click.ClickException(f"cannot write {output or 'the result'}: {error}") from error


def _write_parquet(result: Any, output: Path | None) -> None:
    import pyarrow.parquet as pq

    pq.write_table(result, sys.stdout.buffer if output is None else output, compression="zstd")


def _write_text(result: Any, form: str, file: IO[str]) -> None:
    names = result.column_names
    rows = _rows(result)
    match form:
        case "json":
            for row in rows:
                line = dict(zip(names, row, strict=True))
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        case "csv":
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows([_flat(cell) for cell in row] for row in rows)
        case _ if file is sys.stdout:
            print_table(names, [[_flat(cell) for cell in row] for row in rows])
        case _:
            file.writelines("\t".join(_text(cell) for cell in row) + "\n" for row in rows)


def _rows(result: Any) -> Iterable[tuple[Any, ...]]:
    for batch in result.to_batches():
        yield from zip(
            *([plain(value) for value in column.to_pylist()] for column in batch.columns),
            strict=True,
        )


def plain(value: Any) -> Any:
    r"""A value of a result as JSON.

    Bytes become text if they are UTF-8, and otherwise hexadecimal; times become ISO 8601.

    >>> plain([b"ok", b"\xff\x00", None, 3])
    ['ok', '0xff00', None, 3]
    """
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"0x{value.hex()}"
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _flat(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _text(value: Any) -> str:
    return "-" if value is None else str(_flat(value))
