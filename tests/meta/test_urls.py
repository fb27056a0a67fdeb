from pathlib import Path

import pytest

from headwater.clock import SystemClock
from headwater.errors import ConfigurationError
from headwater.meta.urls import open_store


async def test_an_absolute_path_has_four_slashes(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/meta%20data.db", SystemClock())
    await store.close()
    assert (tmp_path / "meta data.db").exists()


async def test_a_relative_path_has_three_slashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = await open_store("sqlite:///data/meta.db", SystemClock())
    await store.close()
    assert (tmp_path / "data/meta.db").exists()


async def test_memory_is_a_store_of_its_own() -> None:
    store = await open_store("memory://", SystemClock())
    assert await store.get("a") is None
    await store.close()


@pytest.mark.parametrize("url", ["zookeeper://host", "meta.db", ""])
async def test_an_unknown_scheme_is_refused_with_the_known_ones(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sqlite:///.*memory://"):
        await open_store(url, SystemClock())


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite://host/meta.db"])
async def test_a_url_that_names_no_file_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="names no file"):
        await open_store(url, SystemClock())
