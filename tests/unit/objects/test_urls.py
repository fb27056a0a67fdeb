import subprocess
import sys
from concurrent.futures import Executor
from pathlib import Path
from random import Random

import pytest

from headwater.clock import SystemClock
from headwater.errors import ConfigurationError
from headwater.objects.store import DeletableObjects
from headwater.objects.urls import open_objects


def opened(url: str, executor: Executor) -> DeletableObjects:
    return open_objects(url, clock=SystemClock(), random=Random(0), executor=executor)


async def test_a_file_url_creates_its_directory(tmp_path: Path, executor: Executor) -> None:
    store = opened(f"file://{tmp_path}/with%20space/objects", executor)
    await store.put("a", [b"1"])
    await store.close()
    assert (tmp_path / "with space" / "objects" / "a").read_bytes() == b"1"
    assert store.id == "local"


async def test_the_id_of_a_store_is_its_kind(executor: Executor) -> None:
    assert opened("memory://", executor).id == "memory"
    assert opened("s3://bucket/prefix", executor).id == "s3"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "relative/path",
        "/absolute/path",
        "ftp://host/path",
        "file://relative/path",
        "file://",
        "file:///tmp/x?option=1",
        "s3://",
        "s3:///prefix",
        "s3://key:secret@bucket",
        "s3://bucket/../x",
        "s3://bucket?endpoint=127.0.0.1:9000",
        "s3://bucket?path_style=perhaps",
        "s3://bucket?regoin=eu",
        "http://[bad",
    ],
)
def test_a_wrong_url_is_a_one_line_error(url: str, executor: Executor) -> None:
    with pytest.raises(ConfigurationError) as caught:
        opened(url, executor)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_obstore_is_imported_for_buckets_only() -> None:
    script = "import sys, headwater.objects.urls; sys.exit('obstore' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
