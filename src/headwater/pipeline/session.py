"""Spark sessions for the pipeline's jobs."""

import contextlib
import importlib.util
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from headwater.errors import ConfigurationError, StoreUnavailable
from headwater.pipeline.java import find_java, packaged_java, write_shim

DEFAULT_MASTER: Final = "local[*]"
PYSPARK: Final = "4.1"
"""The release line of Spark that the pipeline is built for."""

_DAEMON: Final = "headwater.pipeline.daemon"
_QUIET_LOG: Final = Path(__file__).with_name("log4j2.properties")

_WORKER_MEMORY: Final = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_TOP_PAD_": str(2**26),
}
"""Workers keep the memory of one task for the next: pages that come and go with every record
batch cost a third of the time."""

_FAST: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""A JVM that starts sooner and runs slower: right for tests, where no byte passes through it."""


def session_options(master: str) -> dict[str, str]:
    """Spark's settings for our jobs."""
    options = {
        "spark.master": master,
        "spark.app.name": "headwater",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.python.daemon.module": _DAEMON,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.pyspark.python": sys.executable,
    }
    options |= {f"spark.executorEnv.{name}": value for name, value in _WORKER_MEMORY.items()}
    if master.startswith("local"):
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return options


def check_spark() -> None:
    """Raises ``ConfigurationError`` in one line where Spark is missing or of another release."""
    if importlib.util.find_spec("pyspark") is None:
        raise ConfigurationError(
            "this command runs on Spark: pip install 'headwater[spark]' adds it"
        )
    installed = version("pyspark")
    if not installed.startswith(f"{PYSPARK}."):
        raise ConfigurationError(
            f"pyspark {installed} is installed and Headwater runs on {PYSPARK}: "
            "pip install 'headwater[spark]' brings the right one"
        )


@contextlib.contextmanager
def spark_session(master: str, *, fast: bool = False, log: Path | None = None) -> Iterator[Any]:
    """A ``pyspark.sql.SparkSession`` for as long as the block runs.

    What the JVM prints goes to ``log``, which is removed at the end where it was not given.
    Raises ``ConfigurationError`` for wrong versions, ``StoreUnavailable`` where the master does
    not answer.
    """
    check_spark()
    logging.getLogger("py4j").setLevel(logging.WARNING)
    java = find_java(os.environ, packaged_java())
    scratch = Path(tempfile.mkdtemp(prefix="headwater-spark-"))
    output = log or scratch / "spark.log"
    output.parent.mkdir(parents=True, exist_ok=True)
    quiet = f"-Dlog4j2.configurationFile={_QUIET_LOG.as_uri()}"
    shim = write_shim(java, scratch / "java", output, (quiet, *(_FAST if fast else ())))
    try:
        with _environment(JAVA_HOME=str(shim), PYSPARK_PYTHON=sys.executable):
            session = _start(master, scratch, output)
        try:
            yield session
        finally:
            _stop(session)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _start(master: str, scratch: Path, output: Path) -> Any:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    options = session_options(master) | {
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    builder = SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise StoreUnavailable(
            f"Spark does not start on {master}: {_last_words(output, error)}"
        ) from error


def _stop(session: Any) -> None:
    """Stop Spark and its JVM: another session would get another ``JAVA_HOME``."""
    from pyspark import SparkContext

    context = session.sparkContext
    gateway = context._gateway
    session.stop()
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None


def _last_words(output: Path, error: Exception) -> str:
    """The line that says why, from the JVM where it has one."""
    try:
        lines = output.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    causes = [line for line in lines if line.startswith("Caused by: ")]
    telling = causes[-1:] or [line for line in lines if re.search(r"(Exception|Error)\b", line)]
    text = telling[0] if telling else str(error).strip().partition("\n")[0]
    return text.removeprefix("Caused by: ")[:300]


@contextlib.contextmanager
def _environment(**wanted: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
