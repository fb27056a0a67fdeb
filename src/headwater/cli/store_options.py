"""Options of commands that work on a cluster's data itself, without a broker."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

_PLACE = ("data", "metadata", "objects")


def store_options(command: Callable[..., None]) -> Callable[..., None]:
    """``place_options`` of a command that takes nothing from --data but where the stores are.

    Which of two it is to act on must not be a matter of what somebody exported.
    """

    @wraps(command)
    def of_one_place(settings: Any, **options: Any) -> None:
        given = click.get_current_context().get_parameter_source
        named = {name for name in _PLACE if given(name) is ParameterSource.COMMANDLINE}
        if "data" in named and "metadata" not in named and settings.metadata is not None:
            raise click.UsageError(
                "--data and the setting `metadata` (in the file, or as HEADWATER_METADATA) name "
                "two metadata stores: unset it, or name the store with --metadata"
            )
        command(settings, **options)

    return place_options(of_one_place)


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
