"""Options of commands that work on a cluster's data itself, without a broker."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

_PLACE = ("data", "metadata", "objects")


def place_options(command: Callable[..., None]) -> Callable[..., None]:
    """Where the cluster's data is; the command gets ``settings`` in their place."""

    @click.option("--data", metavar="DIR", help="The broker's data.  [./headwater-data]")
    @click.option("--metadata", metavar="URL", help="The broker's --metadata.  [in --data]")
    @click.option("--objects", metavar="URL", help="The broker's --objects.  [in --data]")
    @click.option(
        "--config", type=click.Path(path_type=Path, dir_okay=False), help="A YAML file of settings."
    )
    @wraps(command)
    def with_settings(config: Path | None, **options: Any) -> None:
        from headwater.config import load

        flags = {name: options.pop(name) for name in _PLACE}
        given = {name: value for name, value in flags.items() if value is not None}
        command(load(config, os.environ, given), **options)

    return with_settings
