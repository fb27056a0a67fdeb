"""Asking before something is deleted."""

import sys

import click


def confirm(question: str) -> None:
    """Go on only where somebody says yes; a script says so with ``--yes``."""
    if not sys.stdin.isatty():
        raise click.UsageError("deleting without a terminal to ask on needs --yes")
    click.confirm(question, abort=True)
