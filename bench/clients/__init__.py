"""The clients that make load: our generator on librdkafka, and Kafka's own in Java."""

import hashlib
import json
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import confluent_kafka

from peers.install import InstallError, cache_folder, install_package, require_command
from peers.kafka import run_tool

SOURCE = Path(__file__).with_name("perf.c")
WARM_UP_RECORDS = 50_000
HEADER = Path("/usr/include/librdkafka/rdkafka.h")


@cache
def perf_program() -> Path:
    """``perf.c``, compiled against the librdkafka that confluent-kafka carries."""
    libraries = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    library = next(libraries.glob("librdkafka-*.so*"), None)
    if library is None:
        raise InstallError(f"confluent-kafka has no librdkafka in {libraries}")
    stamp = hashlib.sha256(SOURCE.read_bytes() + str(library).encode()).hexdigest()[:12]
    program = cache_folder() / f"perf-{stamp}"
    if program.exists():
        return program
    compiler = require_command("gcc", "gcc")
    if not HEADER.exists():
        install_package("librdkafka-dev", wanted=str(HEADER))
    partial = program.with_suffix(".new")
    command: list[str | Path] = [
        compiler, "-O2", SOURCE, "-o", partial, library, f"-Wl,-rpath,{libraries}", "-lpthread",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InstallError(f"perf.c does not compile: {done.stderr}")
    partial.rename(program)
    return program


def perf(mode: str, bootstrap: str, topic: str, *arguments: object, limit: float = 300) -> Any:
    """Run the generator once; its line of JSON. The arguments are listed in ``perf.c``."""
    words = [str(perf_program()), mode, bootstrap, topic, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=limit, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"perf {mode} failed: {done.stdout} {done.stderr[-1000:]}")
    return json.loads(done.stdout)


def producer_performance(bootstrap: str, topic: str, records: int, size: int) -> float:
    """Kafka's own tool with acks=all and else its defaults; megabytes (10^6) a second.

    The tool's own warm-up comes before, so that its compiler's work is not measured.
    """
    done = run_tool(
        "ProducerPerformance", "--bootstrap-server", bootstrap, "--topic", topic,
        "--num-records", str(records + WARM_UP_RECORDS),
        "--warmup-records", str(WARM_UP_RECORDS), "--record-size", str(size), "--throughput", "-1",
        "--command-property", "acks=all",
        heap="512m", quick=False, limit=300,
    )  # fmt: skip
    found = re.search(
        r"(\d+) steady state records sent, ([\d.]+) records/sec", done.stdout.decode()
    )
    if found is None:
        raise RuntimeError(f"ProducerPerformance said: {done.stdout.decode()}")
    sent, rate = found.groups()
    if int(sent) != records:
        raise RuntimeError(f"{records} records wanted, {sent} sent")
    return float(rate) * size / 1e6


@dataclass(frozen=True, slots=True)
class Consumed:
    """Megabytes (10^6) a second."""

    whole: float
    """From the start of the tool's consumer on."""
    joined: float
    """Without the time that its group took to form."""


def consumer_performance(bootstrap: str, topic: str, group: str, records: int) -> Consumed:
    """Kafka's own tool with its defaults."""
    done = run_tool(
        "ConsumerPerformance", "--bootstrap-server", bootstrap, "--topic", topic,
        "--group", group, "--num-records", str(records), "--timeout", "60000",
        heap="512m", quick=False, limit=300,
    )  # fmt: skip
    header, values = (
        [each.strip() for each in line.split(",")]
        for line in done.stdout.decode().strip().splitlines()[-2:]
    )
    found = dict(zip(header, values, strict=True))
    if int(found["data.consumed.in.nMsg"]) < records:
        raise RuntimeError(f"{records} records wanted: {done.stdout.decode()}")
    # The tool's megabyte is 2^20 bytes.
    return Consumed(*(float(found[name]) * 2**20 / 1e6 for name in ("MB.sec", "fetch.MB.sec")))
