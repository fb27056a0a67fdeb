"""Spark sessions for the pipeline: on a local JVM, on a cluster, or through Spark Connect.

Under ``spark-submit`` the session uses its JVM and its master.
"""

import contextlib
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from headwater.errors import ConfigurationError, StoreUnavailable
from headwater.extras import install_command, require_extra
from headwater.pipeline.spark.java import find_java, packaged_java, write_shim
from headwater.pipeline.spark.preflight import check_answers, check_executors, check_server

DEFAULT_MASTER: Final = "local[*]"
PYSPARK: Final = "4.1"
"""The minor version of Spark that the pipeline supports."""

_DAEMON: Final = "headwater.pipeline.spark.daemon"
_QUIET_LOG: Final = Path(__file__).with_name("log4j2.properties")

_WORKER_MEMORY: Final = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_TOP_PAD_": str(2**26),
}
"""malloc settings with which workers reuse memory. Mapping and unmapping pages for every record
batch took a third of the time."""

_STORAGE: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
)
"""Variables that executors on other hosts need to open the same bucket."""

_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by ``spark-submit``, whose JVM is already running."""
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")

_FAST: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""JVM options for a fast start. The JVM runs slower, but no record passes through it."""


def is_local(master: str) -> bool:
    """Whether executors are threads of the driver's JVM.

    >>> is_local("local[*]"), is_local("local-cluster[2,1,1024]")
    (True, False)
    """
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def session_options(master: str) -> dict[str, str]:
    """Spark's configuration for the pipeline."""
    options = {
        "spark.master": master,
        "spark.app.name": "headwater",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.python.daemon.module": _DAEMON,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.pyspark.python": _worker_python(master),
    }
    options |= {f"spark.executorEnv.{name}": value for name, value in _WORKER_MEMORY.items()}
    if master.startswith("local") or urlsplit(master).hostname in _LOOPBACK:
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return options


def _worker_python(master: str) -> str:
    """The Python of workers: on a cluster ``PYSPARK_PYTHON``, otherwise this one."""
    own = sys.executable
    return own if is_local(master) else os.environ.get("PYSPARK_PYTHON", own)


def check_spark() -> None:
    """Raises ``ConfigurationError`` if Spark is missing or has an unsupported version."""
    require_extra("spark", "Spark")
    installed = version("pyspark")
    if not installed.startswith(f"{PYSPARK}."):
        raise ConfigurationError(
            f"pyspark {installed} is installed, and Headwater needs {PYSPARK}: "
            f"{install_command('spark')} adds it"
        )


@contextlib.contextmanager
def spark_session(master: str, *, fast: bool = False, log: Path | None = None) -> Iterator[Any]:
    """A ``pyspark.sql.SparkSession`` for as long as the block runs.

    ``master`` is a Spark master, or the ``sc://`` address of a Spark Connect server. Under
    ``spark-submit`` its master is used instead. The JVM's output goes to ``log``; without ``log``,
    to a temporary file. Raises ``ConfigurationError`` for unsupported versions here or on the
    executors, or ``StoreUnavailable`` if the master does not answer.
    """
    check_spark()
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if master.startswith("sc://"):
        started = _connected(master)
    elif _SUBMITTED in os.environ:
        started = _submitted()
    else:
        started = _launched(master, fast=fast, log=log)
    with started as session:
        yield session


@contextlib.contextmanager
def _launched(master: str, *, fast: bool, log: Path | None) -> Iterator[Any]:
    """A session on a new JVM."""
    check_answers(master)
    java = find_java(os.environ, packaged_java())
    scratch = Path(tempfile.mkdtemp(prefix="headwater-spark-"))
    output = log or scratch / "spark.log"
    output.parent.mkdir(parents=True, exist_ok=True)
    quiet = f"-Dlog4j2.configurationFile={_QUIET_LOG.as_uri()}"
    shim = write_shim(java, scratch / "java", output, (quiet, *(_FAST if fast else ())))
    options = session_options(master) | {
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    try:
        with _environment(JAVA_HOME=str(shim), PYSPARK_PYTHON=_worker_python(master)):
            try:
                session = _start(options)
            except _spark_errors() as error:
                raise StoreUnavailable(
                    f"Spark does not start on {master}: {_error_line(output, error)}"
                ) from error
        try:
            if not is_local(master):
                check_executors(session)
            yield session
        finally:
            _stop(session)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _start(options: Mapping[str, str]) -> Any:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(options.items()))
    # Spark passes its configuration to the JVM on a command line that all users can read. The
    # credentials are passed to the running JVM instead, and from there to executors.
    storage = {name: os.environ[name] for name in _STORAGE if name in os.environ}
    return SparkSession(SparkContext(conf=conf, environment=storage))


@contextlib.contextmanager
def _submitted() -> Iterator[Any]:
    """A session on the JVM that started this process."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # the JVM has the given configuration
    given = dict(SparkConf().getAll())
    master = given.get("spark.master", DEFAULT_MASTER)
    check_answers(master)
    own = {name: value for name, value in session_options(master).items() if name not in given}
    try:
        session = _start(given | own)
    except _spark_errors() as error:
        raise StoreUnavailable(f"Spark does not start on {master}: {error}") from error
    try:
        if not is_local(master):
            check_executors(session)
        yield session
    finally:
        session.stop()


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Any]:
    """A session of a Spark Connect server, which configures its own workers."""
    from pyspark.sql import SparkSession

    check_answers(address)
    try:
        session = SparkSession.builder.remote(address).create()
        server: str = session.version
    except _spark_errors() as error:
        raise StoreUnavailable(
            f"no Spark Connect server answers at {address}: {str(error).partition(chr(10))[0]}"
        ) from error
    try:
        check_server(server)
        check_executors(session)
        yield session
    finally:
        session.stop()


def _spark_errors() -> tuple[type[Exception], ...]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError, OSError)


def _stop(session: Any) -> None:
    """Stop Spark and its JVM, because the next session may need another ``JAVA_HOME``."""
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


def _error_line(output: Path, error: Exception) -> str:
    """The line that names the error, preferably from the JVM's output."""
    try:
        lines = output.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    causes = [line for line in lines if line.startswith("Caused by: ")]
    error_lines = causes[-1:] or [line for line in lines if re.search(r"(Exception|Error)\b", line)]
    text = error_lines[0] if error_lines else str(error).strip().partition("\n")[0]
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
