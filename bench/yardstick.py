"""How fast the processor is while something else runs on it.

A virtual machine's processor is faster in one minute than in the next, and slower for everybody
where more processes share its caches. Processor seconds of two runs say little without that.
"""

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WORK = """
import random, sys, time

def work():
    table = {}
    for number in range(10_000):
        table[number % 977] = (number, str(number))

while True:
    began = time.thread_time()
    work()
    print((time.thread_time() - began) * 1e3, flush=True)
    time.sleep(random.uniform(0.05, 0.15))
"""
"""A millisecond or two of what an interpreter does, ten times a second."""


@contextmanager
def yardstick() -> Iterator[Callable[[], float]]:
    """Measure until the end; then it says how many milliseconds the work took on average."""
    took: list[float] = []
    with subprocess.Popen([sys.executable, "-c", WORK], stdout=subprocess.PIPE, text=True) as work:
        try:
            yield lambda: statistics.mean(took)
        finally:
            work.terminate()
            said, _ = work.communicate()
            took += [float(line) for line in said.splitlines() if line.strip()]
