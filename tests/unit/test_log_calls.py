"""Each log call has a constant message, and passes its values as ``extra``."""

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater

SRC = Path(headwater.__file__).parent
METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
RESERVED = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""As a key of ``extra`` the standard library refuses these, or a log line shows something else."""
FIELDS = {"time", "level", "logger", "message", "traceback", "repeated"}
"""Fields of a log line that are no values."""


def log_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="logger" | "log"), attr=name)):
                if name in METHODS:
                    yield node


def faults(call: ast.Call) -> Iterator[str]:
    match call.args:
        case [ast.Constant(value=str() as message)]:
            if "%" in message:
                yield "the message has a place for an argument"
        case _:
            yield "the only argument is not a constant message"
    for keyword in call.keywords:
        if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
            for key in keyword.value.keys:
                name = key.value if isinstance(key, ast.Constant) else None
                if not isinstance(name, str):
                    yield "a name in extra is not constant"
                elif name in RESERVED | FIELDS:
                    yield f"extra must not have the name {name}"


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda path: path.stem)
def test_log_calls_have_constant_messages_and_names_of_their_own(path: Path) -> None:
    found = [
        f"line {call.lineno}: {fault}"
        for call in log_calls(ast.parse(path.read_text()))
        for fault in faults(call)
    ]
    assert found == []


@pytest.mark.parametrize(
    "call",
    [
        'log.info("Merged %d", 1)',
        'log.info(f"Merged {1}")',
        "log.info(message)",
        'log.info("Merged", extra={"name": 1})',
        'log.info("Merged", extra={"level": 1})',
        'log.info("Merged", extra={key: 1})',
    ],
)
def test_other_log_calls_are_found(call: str) -> None:
    (parsed,) = log_calls(ast.parse(call))
    assert list(faults(parsed)) != []
