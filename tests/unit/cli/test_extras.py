"""What a command says whose extra is not installed."""

from pathlib import Path

import pytest

from headwater.clock import SystemClock
from headwater.extras import install_command
from headwater.log.formats.metadata_values import PARQUET, IndexEntry, Layout
from headwater.log.read.parquet.detection import has_parquet_files
from headwater.meta import keys
from headwater.meta.store import Values, Writes
from headwater.meta.transactions import transact
from headwater.meta.urls import open_store
from headwater.meta.values import encode
from tests.support.cli.without_extras import run_core
from tests.unit.cli.conftest import Serving, serve


async def add_parquet_file(database: Path, stream: int) -> None:
    """Make a file the stream's first entry, as a compaction does."""
    file = IndexEntry(0, 1, PARQUET, 100, 100, 0, 0, key="tables/t/data/0.parquet")

    def decide(_: Values) -> tuple[Writes, None]:
        writes = Writes()
        writes.put(keys.index_entry(0, stream, 1), encode(file))
        writes.put(keys.layout(0, stream), encode(Layout(generation=2)))
        return writes, None

    meta = await open_store(f"sqlite:///{database}", SystemClock())
    try:
        assert not await has_parquet_files(meta)
        await transact(meta, [], decide)
        assert await has_parquet_files(meta)
    finally:
        await meta.close()


async def test_a_broker_that_cannot_read_the_cluster_s_files_does_not_start(
    tmp_path: Path,
) -> None:
    first = serve(tmp_path / "data")
    first.ok("produce", "t", stdin="x\n")
    assert first.stop() == 0
    await add_parquet_file(tmp_path / "data" / "metadata.db", 1)
    done = run_core(tmp_path, "serve", "--data", tmp_path / "data", "--listen", "127.0.0.1:0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: a broker of a cluster with compacted topics needs the extra `table` "
        "(numba, numpy, pyarrow, pyiceberg missing): make .venv/.spark adds it\n"
    )
    second = serve(tmp_path / "data")
    assert second.stop() == 0


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["fsck"], "table"),
        (["table", "list"], "table"),
        (["table", "describe", "t"], "table"),
        (["table", "maintain"], "table"),
        (["table", "compact"], "spark"),
        (["sql", "SELECT 1"], "spark"),
    ],
)
def test_a_command_without_its_extra_ends_with_one_line(
    broker: Serving, tmp_path: Path, words: list[str], extra: str
) -> None:
    done = run_core(tmp_path, *words, "--data", broker.data)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert f"needs the extra `{extra}`" in line
    assert line.endswith("make .venv/.spark adds it")


def test_a_broker_without_the_extra_serves_no_catalog(tmp_path: Path) -> None:
    place = ("--data", tmp_path / "data", "--listen", "127.0.0.1:0")
    done = run_core(tmp_path, "serve", *place, "--catalog", "127.0.0.1:0")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: --catalog needs the extra `table`")


def test_an_extra_is_installed_from_the_index_unless_this_is_a_clone(tmp_path: Path) -> None:
    assert install_command("table", tmp_path) == "pip install 'headwater[table]'"
    assert install_command("etcd", tmp_path) == "pip install 'headwater[etcd]'"
    (tmp_path / "Makefile").touch()
    (tmp_path / "requirements").mkdir()
    assert install_command("table", tmp_path) == "make .venv/.spark"
    assert "-e '.[etcd]'" in install_command("etcd", tmp_path)
