"""Help, completion and wrong usage: what needs no broker."""

import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from headwater.cli.root import headwater
from scripts import reference


def run(*arguments: str) -> Result:
    return CliRunner().invoke(headwater, list(arguments), prog_name="headwater")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_completion_script(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_HEADWATER_COMPLETE" in result.stdout


def test_completion_offers_the_commands() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", "from headwater.cli import main; main()"],
        env={
            "_HEADWATER_COMPLETE": "bash_complete",
            "COMP_WORDS": "headwater s",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.stdout.split() == ["plain,serve", "plain,sql", "plain,status"]


def test_help_and_version_load_neither_client_nor_broker() -> None:
    code = (
        "import sys; sys.argv = ['headwater', '--help']\n"
        "from headwater.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'confluent_kafka', 'rich', 'kio', 'uvloop', 'obstore', 'apsw', 'msgspec'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_help_shows_the_summary_of_every_command_whole() -> None:
    _, _, commands = run("--help").stdout.partition("Commands:")
    assert "restore" in commands
    assert "..." not in commands


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serv"], "No such command 'serv'"),
        (["topic", "create", "t", "-c", "retention.ms"], "'retention.ms' is not NAME=VALUE"),
        (["topic", "create", "t", "-p", "0"], "0 is not in the range x>=1"),
        (["topic", "alter", "t"], "give --partitions, --config or --delete-config"),
        (["topic", "delete", "t"], "with --yes"),
        (["consume", "t", "-o", "yesterday"], "'yesterday' is not earliest, latest"),
        (["sql", "SELECT 1", "-o", "result.xlsx"], "there is no format for a .xlsx file"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_why(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "9092"], "the command line: broker.listen is '9092'; expected HOST:PORT"),
        (["--workers", "none"], "the command line: broker.workers is 'none'; expected an integer"),
        (["--config", "/absent.yaml"], "/absent.yaml: cannot be read: No such file"),
    ],
)
def test_a_wrong_setting_ends_with_1_and_one_line(arguments: list[str], message: str) -> None:
    result = run("serve", *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {message}")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("page", ["cli.md", "configuration.md"])
def test_the_reference_pages_are_current(page: str) -> None:
    written = (reference.FOLDER / page).read_text(encoding="utf-8")
    assert written == reference.pages()[page], "run `make docs`"
