"""Spark's own servers from the ``pyspark`` package: a standalone cluster, and Spark Connect."""

import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from peers.install import InstallError
from peers.process import Server, free_port, start

LIMIT_SECONDS = 90.0
_SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def spark_home() -> Path:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise InstallError("pyspark is missing: make pipeline installs it")
    return Path(found.origin).parent


def program(name: str) -> Path:
    """One of Spark's own commands, such as ``spark-submit``."""
    return spark_home() / "bin" / name


@dataclass(frozen=True, slots=True)
class Standalone:
    """A master and its workers on loopback."""

    master: Server
    workers: Sequence[Server]
    folder: Path

    @property
    def url(self) -> str:
        return f"spark://{self.master.bootstrap}"

    def kill_worker(self, number: int) -> int:
        """Kill a worker, its executors and their Python processes; returns how many they were."""
        family = descendants(self.workers[number].pid)
        self.workers[number].kill()
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return 1 + len(family)

    def stop(self) -> None:
        for server in (*self.workers, self.master):
            server.stop()


def descendants(pid: int) -> list[int]:
    """The children of a process, and theirs."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                found += [child, *descendants(child)]
    return found


def start_standalone(
    folder: Path, *, workers: int = 2, environment: Mapping[str, str] | None = None
) -> Standalone:
    """A cluster with one core and 1 GiB in each worker; its logs and scratch are in ``folder``."""
    port = free_port()
    variables = {**_variables("512m"), **(environment or {})}
    master = start(
        _class("org.apache.spark.deploy.master.Master", port),
        ports=[port], log=folder / "master.log", environment=variables, limit=LIMIT_SECONDS,
    )  # fmt: skip
    url = f"spark://127.0.0.1:{port}"
    started = []
    for number in range(workers):
        port = free_port()
        command = _class("org.apache.spark.deploy.worker.Worker", port)
        command += ["--cores", "1", "--memory", "1g", "--work-dir", folder / f"work-{number}", url]
        started.append(
            start(
                command,
                ports=[port],
                log=folder / f"worker-{number}.log",
                environment=variables,
                limit=LIMIT_SECONDS,
            )
        )
    return Standalone(master, started, folder)


def start_connect(
    folder: Path, *, master: str = "local[2]", environment: Mapping[str, str] | None = None
) -> Server:
    """A Spark Connect server; ``sc://`` and its ``bootstrap`` are its address."""
    port = free_port()
    options = {
        "spark.master": master,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.driver.extraJavaOptions": _SMALL_JVM,
        "spark.python.daemon.module": "headwater.pipeline.spark.daemon",
        "spark.python.unix.domain.socket.enabled": "true",
    }
    command: list[str | Path] = [program("spark-submit")]
    for name, value in options.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    return start(
        [*command, "spark-internal"],
        ports=[port], log=folder / "connect.log",
        environment={**_variables("1g"), **(environment or {})}, limit=LIMIT_SECONDS,
    )  # fmt: skip


def _class(name: str, port: int) -> list[str | Path]:
    own = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port())]
    return [program("spark-class"), name, *own]


def _variables(memory: str) -> dict[str, str]:
    """Servers bring their own environment: what a driver needs, it must send."""
    return {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_DAEMON_JAVA_OPTS": _SMALL_JVM,
        "PYSPARK_PYTHON": sys.executable,
    }
