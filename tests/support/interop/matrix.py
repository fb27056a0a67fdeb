"""The table of clients and what works for them, written from the outcomes of one whole run."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.interop.capabilities import STATIC_CONSUMERS

Cell = tuple[str, str]
"""A client (or tool) and a capability."""

HEAD = """# Compatibility

Written by `make interop`: real clients against a running broker. **pass**: every test of it
passed. **fail**: at least one did not. Empty: the client does not offer it. *client*: the client
offers it, and it does not work with Apache Kafka 4.3 either, for the reason given below. The same
tests run against Apache Kafka itself with `HEADWATER_INTEROP_SERVER=kafka`.
"""
FAULTS: Mapping[Cell, str] = {
    ("franz-go", STATIC_CONSUMERS): (
        "its static member leaves without its instance id, so it cannot come back before its "
        "session has ended"
    ),
}
"""What a client offers and cannot do with Apache Kafka itself."""
PARTS = ("Records", "Groups", "Other APIs")
MARKS = {"pass": "pass", "fail": "**fail**", "client": "*client*"}


@dataclass(slots=True)
class Matrix:
    outcomes: dict[Cell, str] = field(default_factory=dict)

    def add(self, cells: Iterable[Cell], *, passed: bool) -> None:
        """One failed test makes a cell fail, whatever the others say."""
        for cell in cells:
            if not passed or cell not in self.outcomes:
                self.outcomes[cell] = "pass" if passed else "fail"

    def _outcome(self, cell: Cell) -> str:
        return self.outcomes.get(cell, "client" if cell in FAULTS else "not offered")

    def write(self, folder: Path, clients: list[str], tools: str) -> None:
        """Leaves a file untouched where its content would be the same."""
        rows = sorted({name for client, name in self.outcomes if client in clients})
        table = {row: {client: self._outcome((client, row)) for client in clients} for row in rows}
        commands = {
            name: outcome
            for (client, name), outcome in sorted(self.outcomes.items())
            if client == tools
        }
        folder.mkdir(exist_ok=True)
        _update(folder / "compatibility.md", HEAD + _tables(clients, table, commands))
        faults = [
            {"client": client, "capability": name, "reason": reason}
            for (client, name), reason in FAULTS.items()
        ]
        content = {"clients": table, "tools": commands, "client faults": faults}
        _update(folder / "compatibility.json", json.dumps(content, indent=2) + "\n")


def part_of(capability: str) -> str:
    """An API has its own name, which begins with a capital."""
    if capability.startswith("group, "):
        return PARTS[1]
    return PARTS[2] if capability[0].isupper() else PARTS[0]


def _tables(
    clients: list[str], table: Mapping[str, Mapping[str, str]], commands: Mapping[str, str]
) -> str:
    lines = []
    for part in PARTS:
        lines += ["", f"## {part}", "", f"| | {' | '.join(clients)} |"]
        lines.append("|---" * (len(clients) + 1) + "|")
        for row, cells in table.items():
            if part_of(row) == part:
                marks = [MARKS.get(cells[client], "") for client in clients]
                lines.append(f"| {row} | {' | '.join(marks)} |")
    lines += ["", "## Faults of clients", ""]
    lines += [f"- {client}: {name}: {reason}." for (client, name), reason in FAULTS.items()]
    lines += ["", "## Kafka's command-line tools", "", "| | |", "|---|---|"]
    lines += [f"| `{name}` | {MARKS[outcome]} |" for name, outcome in commands.items()]
    return "\n".join(lines) + "\n"


def _update(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
