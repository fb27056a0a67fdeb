"""Clients in other languages as long-running programs, driven by JSON lines.

A request is one line, ``{"id": 1, "op": "produce", ...}``; its answer is one line with the same id
and either ``value`` or ``error``. Requests may overlap. A program that does not offer an operation
answers ``not offered``. All but those of a member name the ``bootstrap`` server. The operations:

records
    ``produce`` topic partition codec settings records, ``consume`` topic partition offset count.
    A record has key, value (base64 or null), headers (name, value), timestamp and offset.
members of groups
    ``join`` group topic kind instance auto_commit gives a number; ``state`` member gives assigned,
    received (place, offset, text), rebalances and error; ``commit`` member offsets (null: all that
    was received); ``leave`` member. A place is ``topic:partition``; offsets are a map of places to
    offset and metadata; kind is an assignor's name, or ``consumer`` for the protocol of KIP-848.
    The Java client and librdkafka take a topic that begins with ``^`` for a pattern.
admin
    ``create_topic``, ``describe_group`` and so on, as in ``tests/support/interop/admin``.
"""

import itertools
import json
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

LIMIT_SECONDS = 90.0


class DriverError(RuntimeError):
    """The program answered with an error, or ended."""


class Driver:
    """One running program. It ends with its standard input, so it never outlives its parent."""

    def __init__(self, command: Sequence[str | Path], *, log: Path) -> None:
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, op: str, **fields: object) -> Any:
        """The answer's value; ``DriverError`` with the program's own words where it failed."""
        number = next(self._numbers)
        answer: Future[Any] = Future()
        line = json.dumps({"id": number, "op": op, **fields}).encode() + b"\n"
        with self._lock:
            self._waiting[number] = answer
            assert self.process.stdin is not None
            self.process.stdin.write(line)
            self.process.stdin.flush()
        return answer.result(LIMIT_SECONDS)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answered = json.loads(line)
            answer = self._waiting.pop(answered["id"])
            if "error" in answered:
                answer.set_exception(DriverError(answered["error"]))
            else:
                answer.set_result(answered.get("value"))
        for answer in self._waiting.values():
            answer.set_exception(DriverError(f"{self.process.args!r} ended"))

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
