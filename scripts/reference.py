"""Write the pages of docs/reference that the code knows: ``make docs``.

A test holds that they are current.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click

from headwater.cli.root import headwater
from headwater.config import Key, keys
from headwater.telemetry.metrics import Counter, Family, Metrics, descriptions

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
NOTE = "<!-- Written by `make docs` from the code; edit the texts there. -->"


def pages() -> dict[str, str]:
    """Each page's file name and text."""
    return {
        "cli.md": cli_page(),
        "configuration.md": configuration_page(),
        "metrics.md": metrics_page(),
    }


def cli_page() -> str:
    """The help text of every command."""
    introduction = (
        f"# The `headwater` command\n\n{NOTE}\n\n"
        "Exit codes: 0 done, 1 an error (one line on stderr), 2 wrong usage, 130 interrupted. "
        "Commands that print have `--json` (`sql`: `--format json`); without a terminal, tables "
        "are tab-separated lines."
    )
    sections = [introduction]
    root = click.Context(headwater, info_name="headwater", **headwater.context_settings)
    for name, ctx in _commands(headwater, root):
        sections.append(f"## {name}\n\n```text\n{ctx.command.get_help(ctx)}\n```")
    return "\n\n".join(sections) + "\n"


def _commands(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, click.Context]]:
    ctx.terminal_width = 100
    yield ctx.command_path, ctx
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            yield from _commands(child, click.Context(child, info_name=name, parent=ctx))


def configuration_page() -> str:
    """Every setting, by section."""
    introduction = (
        f"# Configuration\n\n{NOTE}\n\n"
        "`headwater serve` takes its settings, in rising priority, from the defaults below, a "
        "YAML file (`--config FILE`), environment variables and flags. A setting `log.flush_bytes` "
        "is written so in the file:\n\n```yaml\nlog:\n  flush_bytes: 8388608\n```\n\n"
        "and `HEADWATER_LOG_FLUSH_BYTES` in the environment, where an empty value counts as not "
        "set. An unknown setting or a wrong value stops the start with one line that says what "
        "is allowed. Sizes are in bytes; names say the unit of times."
    )
    sections = [introduction]
    for section, members in groupby(keys(), key=lambda key: key.name.rpartition(".")[0]):
        title = f"`{section}`" if section else "At the top"
        rows = "\n".join(_row(key) for key in members)
        sections.append(
            f"## {title}\n\n| setting | default | takes | what it does |\n|---|---|---|---|\n{rows}"
        )
    return "\n\n".join(sections) + "\n"


def metrics_page() -> str:
    """Every metric that a broker exports, and what else it tells of itself."""
    introduction = (
        f"# Metrics and health\n\n{NOTE}\n\n"
        "A broker with `--metrics HOST:PORT` (`metrics.listen`) serves over HTTP:\n\n"
        "- `/metrics`: the metrics below for Prometheus, and those of its process "
        "(`process_cpu_seconds_total`, `process_resident_memory_bytes`, …);\n"
        "- `/healthz`: 200 while the process answers;\n"
        "- `/readyz`: 200, or 503 with a line that says why: the metadata store does not answer "
        "within two seconds, the object store is unavailable, or the write buffers are full;\n"
        "- `/status.json`: what `headwater status` shows.\n\n"
        "It answers to IP addresses, `localhost`, and the host names that the broker listens on or "
        "advertises. If Prometheus or a probe uses another name, it gets 421: add the name to "
        "`http.allowed_hosts`."
    )
    metrics = Metrics()
    rows = []
    for name, text in descriptions().items():
        source = getattr(metrics, name)
        kind = source.make if isinstance(source, Family) else type(source)
        label = f"`{source.label}`" if isinstance(source, Family) else ""
        suffix = "_total" if kind is Counter else ""
        rows.append(f"| `headwater_{name}{suffix}` | {kind.__name__.lower()} | {label} | {text} |")
    table = "\n".join(["| metric | kind | label | what it tells |", "|---|---|---|---|", *rows])
    return f"{introduction}\n\n{table}\n"


def _row(key: Key) -> str:
    default = "" if key.default is None else f"`{_spelt(key.default)}`"
    return f"| `{key.name}` | {default} | {key.allowed} | {key.description} |"


def _spelt(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
