"""Ends the process without finalizing the interpreter where native threads may call into it.

obstore hands a result to the event loop from a thread of its own. That thread releases the
interpreter's lock while it wakes the loop, and takes it again afterwards. If the main thread has
finalized the interpreter by then, CPython before 3.14 ends the thread with ``pthread_exit``, which
must not unwind Rust's frames: the whole process dies with SIGABRT or SIGBUS after a right answer.
Nothing in Python can wait for such a thread, so the interpreter stays until the process ends.
"""

import atexit
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

_NATIVE_THREADS = "obstore"
"""The module whose threads outlive its calls; a command that has no use for it exits as usual."""


def run_to_exit(command: Callable[[], object]) -> None:
    """Run ``command``, and end the process with its exit code if obstore was loaded.

    Otherwise returns or raises what ``command`` does.
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
    """The exit code that Python itself would end with, after it has printed what it would."""
    if not isinstance(error, SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    sys.stderr.write(f"{error.code}\n")
    return 1


def _exit(code: int) -> NoReturn:
    """What Python does at exit, up to where it takes the interpreter apart.

    The children of ``multiprocessing`` end in the same way, through the same two functions.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(code)
