"""Confirmation of commands that cannot be undone."""

import sys

import click


def confirm(question: str) -> None:
    """Ask on a terminal; without one, raise ``UsageError`` that names ``--yes``."""
    if not sys.stdin.isatty():
        raise click.UsageError("this cannot be undone; without a terminal, confirm it with --yes")
    click.confirm(question, abort=True)
