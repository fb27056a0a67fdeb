"""The root command: its subcommands, and how errors end a command.

Exit codes: 0 done, 1 an error (one line on stderr), 2 wrong usage, 130 interrupted.
"""

import sys
from importlib import import_module
from typing import Any

import click

from headwater.errors import HeadwaterError

_COMMANDS = (
    "serve", "topic", "produce", "consume", "group", "table", "sql", "fsck", "status",
    "cluster", "restore", "completion",
)  # fmt: skip
_PACKAGES = {"topic", "group", "table", "status", "cluster"}


class _Root(click.Group):
    """Imports a subcommand's module on use, and prints expected errors in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = f"{cmd_name}.commands" if cmd_name in _PACKAGES else cmd_name
        command: click.Command = getattr(import_module(f"headwater.cli.{module}"), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HeadwaterError as error:
            raise click.ClickException(str(error)) from error
        except BaseExceptionGroup as group:
            raise _as_one_line(group) from group
        except KeyboardInterrupt:
            sys.exit(130)


def _as_one_line(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first ``HeadwaterError`` of a group as one line; otherwise the group itself."""
    ours = first_of(group, HeadwaterError)
    return group if ours is None else click.ClickException(str(ours))


def first_of(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """The error, or the first one in a group, that is of this kind; None if there is none."""
    found: BaseException | None = error if isinstance(error, kind) else None
    if isinstance(error, BaseExceptionGroup):
        found = error.subgroup(kind)
        while isinstance(found, BaseExceptionGroup):
            found = found.exceptions[0]
    return found


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"headwater {version('headwater')}")
        ctx.exit()


@click.group(
    cls=_Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `headwater serve`, then `echo hello | headwater produce greetings`.",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
def headwater() -> None:
    """A Kafka-compatible streaming platform on object storage."""
