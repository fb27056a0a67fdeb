"""``headwater`` as a command of its own process, over a cluster of the tests."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.pipeline.cluster import PipelineCluster
from tests.support.pipeline.s3_cluster import settings_of

COMMAND = Path(sys.executable).with_name("headwater")
LIMIT_SECONDS = 280


def start_command(
    cluster: PipelineCluster,
    *words: str | Path,
    command: tuple[str | Path, ...] = (COMMAND,),
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Start a command on this cluster's stores; ``command`` is what runs it."""
    variables = {
        **os.environ,
        **settings_of(cluster.tables, cluster.address.objects_url),
        "HEADWATER_DATA": str(cluster.data),
        **(environment or {}),
    }
    return subprocess.Popen(
        [*command, *words],
        env={name: value for name, value in variables.items() if value},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_command(
    cluster: PipelineCluster,
    *words: str | Path,
    command: tuple[str | Path, ...] = (COMMAND,),
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """The same to its end."""
    process = start_command(cluster, *words, command=command, environment=environment)
    try:
        out, err = process.communicate(timeout=LIMIT_SECONDS)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
