"""Options of commands that open a cluster's stores directly, without a broker."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

_OPTIONS = ("data", "metadata", "objects")


def store_options(command: Callable[..., None]) -> Callable[..., None]:
    """As ``location_options``; refuses ``--data`` together with a configured metadata store.

    An environment variable must not decide which of two stores such a command changes.
    """

    @wraps(command)
    def with_one_store(settings: Any, **options: Any) -> None:
        given = click.get_current_context().get_parameter_source
        named = {name for name in _OPTIONS if given(name) is ParameterSource.COMMANDLINE}
        if "data" in named and "metadata" not in named and settings.metadata is not None:
            raise click.UsageError(
                "--data and the setting `metadata` (in the file, or as HEADWATER_METADATA) name "
                "two metadata stores: unset it, or name the store with --metadata"
            )
        command(settings, **options)

    return location_options(with_one_store)


def location_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--data``, ``--metadata``, ``--objects`` and ``--config``; pass ``settings`` instead."""

    @click.option("--data", metavar="DIR", help="The broker's data.  [./headwater-data]")
    @click.option("--metadata", metavar="URL", help="The broker's --metadata.  [in --data]")
    @click.option("--objects", metavar="URL", help="The broker's --objects.  [in --data]")
    @click.option(
        "--config", type=click.Path(path_type=Path, dir_okay=False), help="YAML file with settings."
    )
    @wraps(command)
    def with_settings(config: Path | None, **options: Any) -> None:
        from headwater.config import load

        flags = {name: options.pop(name) for name in _OPTIONS}
        given = {name: value for name, value in flags.items() if value is not None}
        command(load(config, os.environ, given), **options)

    return with_settings
