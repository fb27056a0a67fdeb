"""What the figures were taken on."""

import os
import platform
import statistics
import time
from pathlib import Path

FSYNCS = 300
FSYNC_BYTES = 64 * 1024


def describe(directory: Path) -> dict[str, object]:
    cpu = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu[0] if cpu else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "fsync_ms": fsync_times(directory),
    }


def fsync_times(directory: Path) -> dict[str, float]:
    """The disk's own time for 64 KiB appended and flushed."""
    block = os.urandom(FSYNC_BYTES)
    times = []
    file = directory / "fsync"
    with file.open("wb", buffering=0) as out:
        for _ in range(FSYNCS):
            began = time.perf_counter()
            out.write(block)
            os.fdatasync(out.fileno())
            times.append((time.perf_counter() - began) * 1e3)
    file.unlink()
    times.sort()
    return {
        "p50": round(statistics.median(times), 3),
        "p99": round(times[len(times) * 99 // 100], 3),
    }
