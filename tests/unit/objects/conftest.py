import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

from peers.process import free_port


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The address of a server that speaks S3's protocol."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 30
        while not _answers(f"{endpoint}/moto-api/data.json"):
            assert server.poll() is None, "the S3 server ended at start"
            assert time.monotonic() < deadline, "the S3 server does not answer"
            time.sleep(0.05)
        yield endpoint
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def s3_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.fixture
def s3_url(s3_endpoint: str, s3_credentials: None) -> str:
    """An empty bucket's URL. The server forgets everything first."""
    for path, method in (("/moto-api/reset", "POST"), ("/headwater", "PUT")):
        request = urllib.request.Request(f"{s3_endpoint}{path}", method=method)
        urllib.request.urlopen(request).close()
    return f"s3://headwater/some/prefix?endpoint={s3_endpoint}&region=us-east-1&path_style=true"


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=1).close()
    except OSError:
        return False
    return True
