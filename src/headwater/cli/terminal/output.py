"""Output of commands: tables and JSON."""

import json
import sys
from collections.abc import Sequence

import click

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def print_json(value: object) -> None:
    """Print one JSON document, indented on a terminal."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(value, indent=indent, ensure_ascii=False))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None
) -> None:
    """Print a table on a terminal, and tab-separated lines without a header elsewhere.

    On a narrow terminal text is wrapped; numbers are not.
    """
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(_cell(value) for value in row))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", padding=(0, 1, 0, 0)
    )
    for place, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[place], int) for row in rows)
        table.add_column(
            column, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    Console().print(table)


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "record"), counted(2, "record")
    ('1 record', '2 records')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def byte_size(count: float) -> str:
    """A number of bytes with a unit.

    >>> byte_size(1536)
    '1.5 KiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _cell(value: object) -> str:
    return "-" if value is None else str(value)
