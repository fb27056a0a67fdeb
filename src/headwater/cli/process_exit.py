"""Ending the process without finalizing the interpreter while native threads may call into it.

obstore passes a result to the event loop from its own thread. That thread releases the GIL
while it wakes the loop and acquires it again afterwards. If the main thread has finalized the
interpreter by then, CPython before 3.14 ends the thread with ``pthread_exit``, which must not
unwind Rust's frames: the process dies with SIGABRT or SIGBUS after it printed a correct result.
Python cannot wait for such a thread, so the process ends without finalizing the interpreter.
"""

import atexit
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

_NATIVE_THREADS = "obstore"
"""The module whose threads outlive its calls. Commands that do not load it exit as usual."""


def run_to_exit(command: Callable[[], object]) -> None:
    """Run ``command``. If obstore was loaded, end the process with its exit code.

    Otherwise return, or raise what ``command`` raises.
    """
    try:
        command()
    except BaseException as error:
        if _NATIVE_THREADS not in sys.modules:
            raise
        _exit(_code_of(error))
    if _NATIVE_THREADS in sys.modules:
        _exit(0)


def _code_of(error: BaseException) -> int:
    """The exit code that Python would use. Prints a traceback or message as Python would."""
    if not isinstance(error, SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    sys.stderr.write(f"{error.code}\n")
    return 1


def _exit(code: int) -> NoReturn:
    """Do what Python does at exit, except finalizing the interpreter.

    ``multiprocessing`` ends its child processes with the same two functions.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader is gone
            stream.flush()
    os._exit(code)
