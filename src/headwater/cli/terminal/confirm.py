"""Asking before what cannot be undone."""

import sys

import click


def confirm(question: str) -> None:
    """Go on only where somebody says yes; a script says so with ``--yes``."""
    if not sys.stdin.isatty():
        raise click.UsageError("this cannot be undone: without a terminal to ask on it needs --yes")
    click.confirm(question, abort=True)
