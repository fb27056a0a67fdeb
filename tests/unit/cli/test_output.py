"""Tables on terminals of every width."""

import sys

import click
import pytest

from headwater.cli.terminal.output import print_table

COLUMNS = ["Topic", "Committed", "Member", "Host"]
ROW = ("orders", 123_456_789, "billing-5b1f9c52-1f0e-4d3c-9e7c-2a9d1f4e8b60", "/127.0.0.1")


@pytest.mark.parametrize("width", [50, 80, 200])
def test_a_narrow_terminal_cuts_nothing(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(COLUMNS, [ROW])
    printed = click.unstyle(capsys.readouterr().out)
    head, _, *lines = [line for line in printed.splitlines() if line.strip()]
    assert all(len(line) <= width for line in (head, *lines))
    begins = [head.index(column) for column in COLUMNS]
    cells = [
        "".join(line[begin:end].strip() for line in lines)
        for begin, end in zip(begins, [*begins[1:], None], strict=True)
    ]
    assert cells == [str(value) for value in ROW]
    assert "123456789" in lines[0], "numbers stay whole"
