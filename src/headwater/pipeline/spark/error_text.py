"""The essential line of Spark's long error messages."""

import re
from typing import Final

_ERROR_LINE: Final = re.compile(
    r"^.*?((?:ConfigurationError|ModuleNotFoundError): .+|\[PYTHON_VERSION_MISMATCH\].+"
    r"|\w+(?:Error|Exception|Lost\w*): .+)$",
    re.MULTILINE,
)


def why(text: str) -> str:
    """The line that names the error: the last line of a Python traceback.

    >>> why(chr(10).join(["Job aborted", "Traceback:", "ModuleNotFoundError: No module named 'x'"]))
    "ModuleNotFoundError: No module named 'x'"
    """
    python = text.partition("Driver stacktrace:")[0]
    lines = _ERROR_LINE.findall(python) or _ERROR_LINE.findall(text) or text.strip().splitlines()
    line: str = lines[-1] if lines else "no reason given"
    return line.strip()[:300]
