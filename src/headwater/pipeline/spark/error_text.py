"""What Spark's long reports come down to."""

import re
from typing import Final

_TELLING: Final = re.compile(
    r"^.*?((?:ConfigurationError|ModuleNotFoundError): .+|\[PYTHON_VERSION_MISMATCH\].+"
    r"|\w+(?:Error|Exception|Lost\w*): .+)$",
    re.MULTILINE,
)


def why(text: str) -> str:
    """The line of Spark's long report that says what went wrong: the last of a Python error.

    >>> why(chr(10).join(["Job aborted", "Traceback:", "ModuleNotFoundError: No module named 'x'"]))
    "ModuleNotFoundError: No module named 'x'"
    """
    python = text.partition("Driver stacktrace:")[0]
    told = _TELLING.findall(python) or _TELLING.findall(text) or text.strip().splitlines()
    line: str = told[-1] if told else "no reason given"
    return line.strip()[:300]
