"""What tests of the local directory look at and break."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.objects.object_keys import TEMPORARY_SEGMENT


def left_behind(root: Path) -> list[Path]:
    return files(root / TEMPORARY_SEGMENT)


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def open_descriptors(directory: Path) -> int:
    """How many files below a directory this process has open."""
    return sum(_is_below(directory, link) for link in Path("/proc/self/fd").iterdir())


def _is_below(directory: Path, link: Path) -> bool:
    try:
        return link.readlink().is_relative_to(directory)
    except FileNotFoundError:  # the descriptor of the listing itself
        return False


class Trace:
    """Records the calls that make a write durable, by the names of what they touch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self._monkeypatch = monkeypatch
        for name in ("pwritev", "fdatasync", "fsync"):
            self._watch(name, lambda number, *_: _place(number))
        self._watch("link", lambda _source, target, **_: target)
        self._watch("mkdir", lambda path, *_, **__: path)

    def _watch(self, name: str, describe: Callable[..., str]) -> None:
        real = getattr(os, name)

        def traced(*arguments: Any, **named: Any) -> Any:
            self.calls.append(f"{name} {describe(*arguments, **named)}")
            return real(*arguments, **named)

        self._monkeypatch.setattr(os, name, traced)


def _place(number: int) -> str:
    path = Path(f"/proc/self/fd/{number}").readlink()
    return "temporary" if TEMPORARY_SEGMENT in path.parts else path.name


def fail(monkeypatch: pytest.MonkeyPatch, name: str, code: int, *, times: int = 1) -> None:
    """Let a call of the os module fail that many times, then work again."""
    real = getattr(os, name)
    left = times

    def failing(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            raise OSError(code, os.strerror(code))
        return real(*arguments, **named)

    monkeypatch.setattr(os, name, failing)
