"""Comparing the versions on Spark's executors with this process before tasks are sent.

Tasks are Python functions and Arrow batches, so executors need compatible versions of Python,
Headwater and pyarrow. A difference is reported here in one line, not later in a JVM stack trace.
"""

import platform
import socket
import time
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from urllib.parse import urlsplit

from headwater.errors import ConfigurationError, StoreUnavailable
from headwater.pipeline.spark.error_text import why
from headwater.pipeline.spark.java import SUPPORTED, feature_release

EXECUTOR_SECONDS: Final = 120.0
CONNECT_SECONDS: Final = 5.0
PORTS: Final = {"spark": 7077, "sc": 15002}
POLL_SECONDS: Final = 0.1
TASKS: Final = 4
PACKAGES: Final = ("headwater", "pyspark", "pyarrow")
OLDEST_PYARROW: Final = 20

_JAVA: Final = "java_method('java.lang.System', 'getProperty', 'java.version') AS java"
_MISSING: Final = "none"


def check_answers(master: str) -> None:
    """Raises ``StoreUnavailable`` if a Spark master or server does not listen.

    Spark itself would retry for minutes. Masters without an address are not checked.
    """
    scheme, _, rest = master.partition("://")
    if scheme not in PORTS:
        return
    reason: OSError | None = None
    for address in rest.partition("/")[0].partition(";")[0].split(","):
        parts = urlsplit(f"//{address}")
        try:
            host, port = parts.hostname or "", parts.port or PORTS[scheme]
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except ValueError:
            raise ConfigurationError(f"{master!r} is not {scheme}://HOST:PORT") from None
        except OSError as error:
            reason = error
        else:
            return
    raise StoreUnavailable(f"Spark does not answer at {master}: {reason}")


def check_server(server: str) -> None:
    """Raises ``ConfigurationError`` if a Spark Connect server has another minor version."""
    own = version("pyspark")
    if _line(server) != _line(own):
        raise ConfigurationError(
            f"the server runs Spark {server} and pyspark here is {own}: "
            f"connect to a server of {_line(own)}"
        )


def check_executors(session: Any) -> None:
    """Check the versions on executors with a small job.

    Raises ``ConfigurationError`` with all differences in one line, or ``StoreUnavailable`` if the
    cluster provides no executor or the job fails.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        _wait_for_executor(session)
        numbers = session.range(0, TASKS, 1, TASKS).selectExpr(_JAVA)
        rows = numbers.mapInArrow(_report, "name string, found string").collect()
    except (PySparkException, Py4JError) as error:
        raise _refusal(why(str(error))) from error
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row.name, set()).add(row.found)
    if wrong := differences(versions(), found):
        raise ConfigurationError(f"Spark's executors differ from this process: {'; '.join(wrong)}")


def _wait_for_executor(session: Any) -> None:
    """Wait for the first executor: without one, a job would wait without end."""
    if not hasattr(session, "_jsparkSession"):
        return
    context = session.sparkContext
    deadline = time.monotonic() + EXECUTOR_SECONDS
    # The driver counts as one.
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:
        if time.monotonic() > deadline:
            raise StoreUnavailable(
                f"{context.master} gave no executor within {EXECUTOR_SECONDS:.0f} s; check that "
                "its workers run, have free cores and memory, and have Java 17 or 21"
            )
        time.sleep(POLL_SECONDS)


def _report(batches: Iterator[Any]) -> Iterator[Any]:
    """Report the versions on an executor. The batches contain its Java version."""
    import pyarrow as pa

    for batch in batches:
        found = {**versions(), "Java": batch.column(0)[0].as_py()}
        yield pa.RecordBatch.from_pydict({"name": list(found), "found": list(found.values())})


@cache
def versions() -> dict[str, str]:
    """Versions of this process's Python and packages; ``none`` for a missing package."""
    found = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = _MISSING
    return found


def differences(here: Mapping[str, str], there: Mapping[str, set[str]]) -> list[str]:
    """Incompatible versions, as text. Patch versions may differ.

    >>> differences({"Python": "3.11.7"}, {"Python": {"3.11.9", "3.12.1"}, "Java": {"25.0.1"}})
    ['Python 3.12.1 there and 3.11.7 here', 'Java 25.0.1 there, and Spark needs 17 or 21']
    """
    wrong = [
        f"{name} {found} there and {own} here"
        for name, own in here.items()
        for found in sorted(there.get(name, ()))
        if not _are_compatible(name, found, own)
    ]
    return wrong + [
        f"Java {found} there, and Spark needs {' or '.join(map(str, SUPPORTED))}"
        for found in sorted(there.get("Java", ()))
        if feature_release(found) not in SUPPORTED
    ]


def _are_compatible(name: str, one: str, other: str) -> bool:
    match name:
        case "headwater":
            return one == other
        case "pyarrow":
            # Versions exchange data with each other; tasks need at least this one.
            return one != _MISSING and int(one.split(".", maxsplit=1)[0]) >= OLDEST_PYARROW
        case _:
            return _line(one) == _line(other)


def _line(found: str) -> str:
    return ".".join(found.split(".")[:2])


def _refusal(reason: str) -> ConfigurationError | StoreUnavailable:
    # A Python without Headwater cannot start the daemon, and prints no reason.
    if "No module named" in reason or "headwater.pipeline.spark.daemon" in reason:
        return ConfigurationError(
            "the Python of Spark's executors has no headwater: install the same "
            "'headwater[spark]' there, or set PYSPARK_PYTHON to one that has it"
        )
    if "PYTHON_VERSION_MISMATCH" in reason:
        return ConfigurationError(
            f"Spark's executors run a different Python than this process: {reason}; set "
            "PYSPARK_PYTHON to the same version"
        )
    return StoreUnavailable(f"Spark's executors do not work: {reason}")
