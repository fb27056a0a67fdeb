"""``headwater completion``: shell completion of commands and topic names."""

import click

_HINTS = {
    "bash": 'eval "$(headwater completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(headwater completion zsh)"    in ~/.zshrc',
    "fish": "headwater completion fish | source    in ~/.config/fish/config.fish",
}


@click.command(epilog="\b\n" + "\n".join(_HINTS.values()))
@click.argument("shell", type=click.Choice(list(_HINTS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(ctx.find_root().command, {}, "headwater", "_HEADWATER_COMPLETE").source())
