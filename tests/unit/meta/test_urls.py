import sys
from pathlib import Path

import pytest

from headwater.clock import SystemClock
from headwater.errors import ConfigurationError
from headwater.meta.etcd.address import EtcdAddress, EtcdTls, parse_etcd_address
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


async def test_each_memory_url_opens_a_new_store() -> None:
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


@pytest.mark.parametrize("url", ["etcd:///prefix", "etcd://host:port/prefix", "etcd://a:1,/prefix"])
async def test_a_url_without_an_etcd_member_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="names no etcd member"):
        await open_store(url, SystemClock())


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("etcd://host/prefix?ca=ca.pem", "write etcds://"),
        ("etcds://host/prefix?cert=cert.pem", "both are needed"),
        ("etcds://host/prefix?ca=/no/such/file", "cannot be read"),
        ("etcds://host/prefix?tls=on", "unknown option 'tls'"),
        ("etcd://host/prefix?max-txn-ops=64", "a number, at least 128"),
        ("etcd://me:secret@host/prefix?a=b", "etcd://me@host"),
    ],
)
async def test_invalid_options_are_refused(url: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        await open_store(url, SystemClock())


async def test_the_error_for_a_missing_extra_has_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in [name for name in sys.modules if name.startswith("headwater.meta.etcd")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(ConfigurationError, match=r"-e '\.\[etcd\]' adds it"):
        await open_store("etcd://127.0.0.1/prefix", SystemClock())


def test_every_part_of_an_etcd_url_is_parsed(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"pem")
    address = parse_etcd_address(
        f"etcds://me:s%40cret@a,b:1,[::1]/one/two?ca={tmp_path}/ca.pem&max-txn-ops=999"
    )
    assert address == EtcdAddress(
        ("a:2379", "b:1", "[::1]:2379"), "one/two", "me", "s@cret", EtcdTls(ca=b"pem"), 999
    )


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("oxia:///default", "names no Oxia server"),
        ("oxia://host:6648/default/a:b", "the prefix 'a:b' may only have"),
        ("oxia://host:6648/default?tls=on", "has options"),
    ],
)
async def test_an_invalid_oxia_url_is_refused(url: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        await open_store(url, SystemClock())
