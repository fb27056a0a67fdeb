"""``headwater sql``: Spark SQL over topics."""

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from headwater.cli.store_options import place_options
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
    help="How to print.  [table, or by the ending of --output]",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="A file to write."
)
@click.option("--master", metavar="URL", help="Spark's master.  [local[*]]")
@place_options
def sql(
    settings: "Settings",
    *,
    query: str,
    form: str | None,
    output: Path | None,
    master: str | None,
) -> None:
    """Ask topics in Spark SQL, with what was produced a moment ago.

    Every topic is a table with the columns topic, partition, offset, timestamp, key, value,
    headers, producer_id, producer_epoch, base_sequence and attributes. Keys and values are bytes:
    string(value) makes text of them. A name such as page-views stands in backticks; put the query
    in single quotes then, as the shell runs what stands in backticks.
    """
    from headwater.pipeline.spark.session import check_spark, spark_session
    from headwater.pipeline.sql import SqlStores, check_reads, run_query, topic_names

    check_reads(query)
    form = form or _form_of(output)
    if form == "parquet" and output is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is not for a terminal: name a file with --output")
    check_spark()
    place = SqlStores(settings.metadata_url, settings.objects_url)
    topics = topic_names(place)
    with _note("Starting Spark"), spark_session(master or settings.pipeline.master) as session:
        result = run_query(session, query, place, topics)
    _write(result, form, output)
    if output is not None:
        click.echo(f"Wrote {counted(result.num_rows, 'row')} to {output}.", err=True)


def _form_of(output: Path | None) -> str:
    """The format that a file's ending names; raises ``UsageError`` for one that names none."""
    ending = "" if output is None else output.suffix.removeprefix(".")
    if ending in ("", "txt"):
        return "table"
    if ending not in FORMATS:
        raise click.UsageError(
            f"no format is written to a .{ending} file: "
            f"choose one of {', '.join(FORMATS)} with --format"
        )
    return ending


@contextmanager
def _note(text: str) -> Iterator[None]:
    """Say on a terminal what takes its time."""
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
    r"""A value of a result as JSON has it.

    Bytes are text where they are UTF-8, and hexadecimal where not; times are ISO 8601.

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
