"""The supervisor of several broker processes, with scripts in the brokers' place."""

import asyncio
import sys
from pathlib import Path

import pytest

from headwater.app.workers import RestartDelay, Supervisor, WorkerCannotContinue, worker_flags
from headwater.config import load
from headwater.errors import ConfigurationError
from tests.support.waiting import eventually

LIVES = """
import pathlib, sys
log = pathlib.Path(sys.argv[1])
with log.open("a") as file:
    file.write("started\\n")
print("ready", flush=True)
if log.read_text().count("started") <= int(sys.argv[2]):
    sys.exit(9)
sys.stdin.read()
"""

FAILS = "import sys; sys.exit(1)"


def script(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def test_workers_differ_in_id_and_ports() -> None:
    settings = load(
        None,
        {},
        {
            "broker.id": 5,
            "broker.listen": "0.0.0.0:9092",
            "broker.advertise": "example:19092",
            "metrics.listen": "127.0.0.1:9100",
            "tables.catalog_listen": "127.0.0.1:8181",
        },
    )
    assert worker_flags(settings, 2) == [
        "--workers=1",
        "--supervised",
        "--broker-id=7",
        "--listen=0.0.0.0:9094",
        "--advertise=example:19094",
        "--metrics=127.0.0.1:9102",
        "--catalog=127.0.0.1:8183",
    ]


def test_the_pause_doubles_up_to_a_limit_and_starts_over_after_a_long_life() -> None:
    backoff = RestartDelay()
    assert [backoff.after(0) for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert backoff.after(3600) == 0.5


async def test_a_worker_that_cannot_go_on_ends_all(tmp_path: Path) -> None:
    ends = f"import sys; print('ready', flush=True); sys.exit({WorkerCannotContinue.exit_code})"
    supervisor = Supervisor([script(LIVES, tmp_path / "0", 0), script(ends)])
    with pytest.raises(ExceptionGroup) as raised:
        await supervisor.run()
    assert raised.group_contains(ConfigurationError, match="worker 1 cannot continue")


async def test_a_dead_worker_is_started_again_and_stop_ends_all(tmp_path: Path) -> None:
    logs = [tmp_path / "0", tmp_path / "1"]
    supervisor = Supervisor([script(LIVES, log, deaths) for deaths, log in enumerate(logs)])
    running = asyncio.create_task(supervisor.run())
    await supervisor.wait_ready()
    await eventually(lambda: logs[1].read_text() == "started\nstarted\n")
    supervisor.stop()
    await running
    assert logs[0].read_text() == "started\n"


async def test_a_worker_that_cannot_start_stops_the_others(tmp_path: Path) -> None:
    supervisor = Supervisor([script(LIVES, tmp_path / "0", 0), script(FAILS)])
    with pytest.RaisesGroup(pytest.RaisesExc(ConfigurationError, match="worker 1 could not")):
        await supervisor.run()
