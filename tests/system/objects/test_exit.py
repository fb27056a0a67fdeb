"""How a command ends that asked a bucket: obstore's threads may still be inside Python then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from peers.s3_server import S3Server

SLOW_THREADS = """
import threading, time
from asyncio.selector_events import BaseSelectorEventLoop

wake = BaseSelectorEventLoop._write_to_self

def slow(self):
    wake(self)
    if threading.current_thread() is not threading.main_thread():
        time.sleep(0.3)

class SlowToGo:
    def __del__(self, sleep=time.sleep):
        sleep(1)

BaseSelectorEventLoop._write_to_self = slow
threading.kept_to_the_end = SlowToGo()
"""
"""The thread that hands over a result is inside Python until the interpreter is being finalized."""


def restore_list(objects: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headwater.cli", "restore", "--list", "--objects", objects],
        env={**os.environ, **S3Server.client_environment(), "PYTHONPATH": str(folder)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("hook", ["", SLOW_THREADS], ids=["as it is", "slow thread"])
def test_a_command_that_asked_a_bucket_ends_with_its_own_exit_code(
    versitygw: S3Server, bucket: str, tmp_path: Path, hook: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(hook)
    versitygw.create_bucket(bucket)
    done = restore_list(versitygw.url(bucket), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "There are no snapshots.\n"
    refused = restore_list(versitygw.url("absent"), tmp_path)
    assert refused.returncode == 1
    assert refused.stderr.startswith("Error: ")
