"""A broker as a user starts it, and the command line against it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headwater.cli.root import headwater
from peers.process import free_port


def start(*arguments: object) -> subprocess.Popen[str]:
    """``headwater serve``, without waiting for it."""
    environment = {name: value for name, value in os.environ.items() if "HEADWATER" not in name}
    return subprocess.Popen(
        [sys.executable, "-m", "headwater.cli", "serve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


@dataclass(frozen=True, slots=True)
class Serving:
    process: subprocess.Popen[str]
    addresses: Sequence[str]
    data: Path
    metrics: str

    def headwater(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        """A command against this broker."""
        return CliRunner(env={"HEADWATER_BOOTSTRAP": ",".join(self.addresses)}).invoke(
            headwater, list(arguments), input=stdin, prog_name="headwater"
        )

    def ok(self, *arguments: str, stdin: str | bytes | None = None) -> str:
        """A command that must succeed; returns what it printed."""
        result = self.headwater(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def stop(self) -> int:
        self.process.terminate()
        self.process.communicate(timeout=30)
        return self.process.returncode


Serve = Callable[..., Serving]


def serve(data: Path, *arguments: object) -> Serving:
    """A broker that listens; its welcome line says where."""
    metrics = f"127.0.0.1:{free_port()}"
    process = start("--data", data, "--listen", "127.0.0.1:0", "--metrics", metrics, *arguments)
    assert process.stdout is not None
    welcome = process.stdout.readline()
    if not welcome:
        raise AssertionError(process.communicate(timeout=30)[1])
    return Serving(process, re.findall(r"127\.0\.0\.1:\d+(?=,)", welcome), data, metrics)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    serving = serve(tmp_path_factory.mktemp("broker") / "data")
    yield serving
    serving.stop()
