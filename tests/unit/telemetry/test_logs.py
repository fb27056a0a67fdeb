"""The two formats of the process's own log."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.telemetry import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _root_logger_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    yield
    root.handlers = handlers
    root.setLevel(level)


def test_a_pipe_gets_one_json_object_per_line_with_the_values() -> None:
    out = io.StringIO()
    logs.configure(stream=out)
    logging.getLogger("headwater.log").info("Flushed", extra={"bytes": 12, "object": "a\nb"})
    line, rest = out.getvalue().split("\n", 1)
    assert rest == ""
    record = json.loads(line)
    assert record.pop("time").endswith("Z")
    assert record == {
        "level": "info",
        "logger": "headwater.log",
        "message": "Flushed",
        "bytes": 12,
        "object": "a\nb",
    }


def test_an_exception_stays_on_its_line() -> None:
    out = io.StringIO()
    logs.configure("json", stream=out)
    try:
        int("broken")
    except ValueError:
        logging.getLogger("headwater").exception("Failed")
    assert out.getvalue().count("\n") == 1
    assert "ValueError" in json.loads(out.getvalue())["traceback"]


def test_a_terminal_gets_a_readable_coloured_line() -> None:
    out = Terminal()
    logs.configure(stream=out)
    logging.getLogger("headwater.log").warning("Slow", extra={"ms": 900})
    assert "\x1b[33mWARNING\x1b[0m log  Slow" in out.getvalue()
    assert out.getvalue().endswith("900\n")


def test_text_into_a_pipe_has_no_colours() -> None:
    out = io.StringIO()
    logs.configure("text", stream=out)
    logging.getLogger("headwater.log").info("Flushed", extra={"bytes": 12})
    assert out.getvalue().endswith("INFO    log  Flushed  bytes=12\n")
    assert "\x1b" not in out.getvalue()


def test_text_with_spaces_is_quoted_and_stays_on_one_line() -> None:
    out = io.StringIO()
    logs.configure("text", stream=out)
    extra = {"error": OSError("no space\nleft"), "reason": TimeoutError(), "object": "wal/1.wo"}
    logging.getLogger("headwater.log").warning("Could not flush", extra=extra)
    assert out.getvalue().endswith(
        'log  Could not flush  error="no space\\nleft"  reason=TimeoutError()  object=wal/1.wo\n'
    )


def test_an_error_among_the_values_is_text_in_json() -> None:
    out = io.StringIO()
    logs.configure("json", stream=out)
    logging.getLogger("headwater").warning("Failed", extra={"error": OSError("full")})
    assert json.loads(out.getvalue())["error"] == "full"


def test_a_value_does_not_replace_the_level_of_a_line() -> None:
    out = io.StringIO()
    logs.configure("json", stream=out)
    logging.getLogger("headwater").info("Finalized", extra={"level": 2})
    line = json.loads(out.getvalue())
    assert (line["level"], line["extra_level"]) == ("info", 2)


def test_lines_below_the_level_are_left_out() -> None:
    out = io.StringIO()
    logs.configure("json", "warning", stream=out)
    logging.getLogger("headwater").info("Quiet")
    assert out.getvalue() == ""


def record(message: str, created: float, **values: object) -> logging.LogRecord:
    fields = {"name": "headwater.log", "msg": message, "levelno": logging.WARNING}
    made = logging.makeLogRecord(fields | values)
    made.created = created
    return made


def test_a_line_that_is_repeated_passes_every_ten_seconds_and_says_how_often_it_came() -> None:
    repeats = logs.Repeats()
    lines = [record("the disk is full", 100 + 0.25 * step) for step in range(90)]
    passed = [line for line in lines if repeats.filter(line)]
    assert [line.created for line in passed] == [100, 110, 120]
    assert [getattr(line, "repeated", 0) for line in passed] == [0, 39, 39]


def test_lines_that_differ_all_pass_and_few_are_remembered() -> None:
    repeats = logs.Repeats()
    assert all(repeats.filter(record(f"stream {n} is late", 100)) for n in range(1000))
    assert not repeats.filter(record("stream 999 is late", 100))
    assert repeats.filter(record("stream 1 is late", 100))


def test_lines_with_one_message_differ_by_their_values() -> None:
    repeats = logs.Repeats()
    assert all(repeats.filter(record("Stream is late", 100, stream=n)) for n in range(10))
    assert not repeats.filter(record("Stream is late", 101, stream=9))
    assert repeats.filter(record("Stream is late", 110, stream=9))


def test_a_line_about_a_client_passes_once_a_minute_whatever_its_port() -> None:
    repeats = logs.Repeats()
    lines = [
        record("Closing a connection", 100 + second, peer=f"10.0.0.7:{40_000 + second}", reason="x")
        for second in range(130)
    ]
    assert [line.created for line in lines if repeats.filter(line)] == [100, 160, 220]
    assert repeats.filter(record("Closing a connection", 221, peer="10.0.0.8:1", reason="x"))
    assert repeats.filter(record("Closing a connection", 221, peer="10.0.0.7:1", reason="y"))


def test_any_thread_may_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs.Repeats, "MAX_REMEMBERED", 8)
    repeats = logs.Repeats()

    def log_lines(first: int) -> None:
        for n in range(first, first + 15_000):
            repeats.filter(record(f"stream {n % 12} is late", 0))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(log_lines, range(0, 12, 3)))
    finally:
        sys.setswitchinterval(interval)
