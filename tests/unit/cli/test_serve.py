"""``headwater serve`` as a process: what it says, how it stops, and what stops it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import apsw
import pytest

from peers.process import free_port
from tests.unit.cli.conftest import Serving, serve, start


def refused(*arguments: object) -> str:
    """The one line of a broker that does not start."""
    process = start(*arguments)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert out == ""
    (line,) = err.splitlines()
    return line


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def test_a_stopped_broker_exits_with_0_and_its_records_are_there_after_a_restart(
    tmp_path: Path,
) -> None:
    first = serve(tmp_path / "data")
    first.ok("produce", "kept", stdin="a\nb\n")
    assert first.stop() == 0
    second = serve(tmp_path / "data")
    assert second.ok("consume", "kept") == "a\nb\n"
    assert second.stop() == 0


def test_a_killed_broker_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    first = serve(tmp_path / "data")
    first.ok("produce", "kept", stdin="a\nb\n")
    first.process.kill()
    first.process.communicate(timeout=30)
    second = serve(tmp_path / "data")
    assert second.ok("consume", "kept") == "a\nb\n"
    second.stop()


def test_metrics_health_and_readiness_are_served(broker: Serving) -> None:
    broker.ok("produce", "measured", stdin="x\n")
    scraped = get(f"http://{broker.metrics}/metrics")
    assert 'headwater_requests_total{api="Produce"}' in scraped
    assert "headwater_commits_total" in scraped
    assert get(f"http://{broker.metrics}/healthz") == "ok\n"
    assert get(f"http://{broker.metrics}/readyz") == "ready\n"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(f"http://{broker.metrics}/")


def test_status_counts_what_is_stored_and_asks_the_brokers(broker: Serving) -> None:
    broker.ok("topic", "create", "counted", "-p", "2", "--if-not-exists")
    broker.ok("produce", "counted", stdin="x\n")
    answer = json.loads(broker.ok("status", "--data", str(broker.data), "--json"))
    (only,) = answer["brokers"]
    assert only["id"] == 1
    assert only["address"] == broker.addresses[0]
    assert only["page"]["commits"] >= 1
    assert answer["stored"]["topics"] >= 1
    assert answer["stored"]["streams"] >= 2
    assert answer["stored"]["records_produced"] >= 1
    assert answer["stored"]["index_entries"] >= 1
    assert "Index entries" in broker.ok("status", "--data", str(broker.data))


def test_a_command_leaves_nothing_in_the_working_directory(broker: Serving, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headwater.cli", "fsck", "--data", str(broker.data)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert not list(tmp_path.iterdir())


def test_status_without_data_says_so(broker: Serving, tmp_path: Path) -> None:
    result = broker.headwater("status", "--data", str(tmp_path / "absent"))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: there is no metadata store at ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status"], "there is no metadata store at"),
        (["cluster", "status"], "there is no metadata store at"),
        (["restore", "--list"], "there is no object store at"),
        (["restore", "--dry-run"], "there is no object store at"),
        (["restore"], "there is no object store at"),
    ],
)
def test_who_looks_at_a_place_that_is_not_there_does_not_make_it(
    broker: Serving, tmp_path: Path, words: list[str], said: str
) -> None:
    result = broker.headwater(*words, "--data", str(tmp_path / "typo"))
    assert result.exit_code == 1
    assert said in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["status"], ["cluster", "status"], ["restore", "--dry-run"]])
def test_two_places_are_not_chosen_from(
    broker: Serving, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """What acts on a cluster must not act on the one that somebody exported."""
    monkeypatch.setenv("HEADWATER_METADATA", "sqlite:////nowhere/metadata.db")
    result = broker.headwater(*words, "--data", str(broker.data))
    assert result.exit_code == 2
    assert "as HEADWATER_METADATA) name two metadata stores" in " ".join(result.stderr.split())
    url = f"sqlite:///{broker.data}/metadata.db"
    assert broker.headwater("status", "--data", str(broker.data), "--metadata", url).exit_code == 0


def test_a_restore_that_is_only_tried_makes_no_metadata_store(
    broker: Serving, tmp_path: Path
) -> None:
    place = ["--data", str(tmp_path / "new"), "--objects", f"file://{broker.data}/objects"]
    result = broker.headwater("restore", "--dry-run", *place)
    assert "snapshot" in result.output
    assert not list(tmp_path.iterdir())


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused("--data", tmp_path / "data", "--listen", f"127.0.0.1:{port}")
        assert f"port {port} on 127.0.0.1 is in use" in line
        metrics = ["--metrics", f"127.0.0.1:{port}"]
        line = refused("--data", tmp_path / "data", "--listen", "127.0.0.1:0", *metrics)
        assert f"cannot serve metrics on 127.0.0.1:{port}: Address already in use" in line


def test_a_broker_id_in_use_is_one_line(broker: Serving) -> None:
    line = refused("--data", broker.data, "--listen", "127.0.0.1:0")
    assert line.startswith("Error: broker id 1 is in use by process ")


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    line = refused("--data", tmp_path / "file" / "data", "--listen", "127.0.0.1:0")
    assert f"{tmp_path}/file/data" in line


def test_metadata_of_a_newer_format_is_one_line(tmp_path: Path) -> None:
    serve(tmp_path / "data").stop()
    with apsw.Connection(str(tmp_path / "data" / "metadata.db")) as database:
        database.execute("PRAGMA user_version=999")
    database.close()
    line = refused("--data", tmp_path / "data", "--listen", "127.0.0.1:0")
    assert "999" in line


def test_the_metadata_of_a_cluster_is_not_served_with_other_objects(tmp_path: Path) -> None:
    first = serve(tmp_path / "data")
    own, other = f"file://{tmp_path}/data/objects", f"file://{tmp_path}/other"
    fsck = ("fsck", "--data", str(tmp_path / "data"), "--objects", other)
    while_it_runs = first.headwater(*fsck)
    first.stop()
    line = refused("--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--objects", other)
    for message in (line, while_it_runs.stderr, first.headwater(*fsck).stderr):
        assert own in message
        assert other in message
    assert not [path for path in (tmp_path / "other").rglob("*") if path.is_file()]
    # A directory that moved is the same store.
    (tmp_path / "data").rename(tmp_path / "moved")
    assert serve(tmp_path / "moved").stop() == 0


def test_a_copy_of_the_metadata_that_is_out_of_date_is_not_served(tmp_path: Path) -> None:
    data = tmp_path / "data"
    serve(data).stop()
    shutil.copytree(data, tmp_path / "copy", ignore=shutil.ignore_patterns("objects"))
    serve(data).stop()
    (data / "metadata.db").rename(tmp_path / "newer.db")
    shutil.copytree(tmp_path / "copy", data, dirs_exist_ok=True)
    line = refused("--data", data, "--listen", "127.0.0.1:0")
    assert "went back to an earlier state" in line
    assert "headwater restore" in line
    (tmp_path / "newer.db").rename(data / "metadata.db")
    assert serve(data).stop() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metadata", "redis://x"], "no metadata store is known for 'redis://x'"),
        (["--objects", "ftp://x"], "'ftp://x' is not an object store's URL"),
    ],
)
def test_an_unknown_store_url_is_one_line(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert message in refused("--data", tmp_path, "--listen", "127.0.0.1:0", *arguments)


def test_listening_everywhere_needs_an_address_for_clients(tmp_path: Path) -> None:
    line = refused("--data", tmp_path / "data", "--listen", "0.0.0.0:0")
    assert line.startswith(
        "Error: clients cannot connect to the wildcard address 0.0.0.0; name the address"
    )


def test_a_file_of_settings_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "headwater.yaml"
    file.write_text("broker: {id: 7, auto_create_topics: false, num_partitions: 5}\n")
    serving = serve(tmp_path / "data", "--config", file)
    assert serving.headwater("produce", "absent", stdin="x\n").exit_code == 1
    serving.ok("topic", "create", "made")
    (made,) = json.loads(serving.ok("topic", "describe", "made", "--json"))
    assert [each["leader"] for each in made["partitions"]] == [7] * 5
    serving.stop()


def test_a_broker_in_memory_needs_no_directory(tmp_path: Path) -> None:
    serving = serve(tmp_path / "data", "--metadata", "memory://", "--objects", "memory://")
    serving.ok("produce", "t", stdin="x\n")
    assert serving.ok("consume", "t") == "x\n"
    serving.stop()
    assert not (tmp_path / "data").exists()


def workers_of(supervisor: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text()
    return [int(child) for child in children.split()]


def test_workers_share_the_data_and_a_killed_one_comes_back(tmp_path: Path) -> None:
    port = free_port(consecutive=2)
    both = serve(tmp_path / "data", "--listen", f"127.0.0.1:{port}", "--workers", "2")
    assert both.addresses == [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]
    both.ok("topic", "create", "shared", "-p", "8")
    both.ok("produce", "shared", stdin="".join(f"{n}\n" for n in range(200)))
    os.kill(workers_of(both.process)[1], signal.SIGKILL)
    both.ok("produce", "shared", stdin="".join(f"{n}\n" for n in range(200, 400)))
    found = both.ok("consume", "shared").split()
    assert sorted(map(int, found)) == list(range(400))
    while len(workers_of(both.process)) != 2:
        pass
    children = workers_of(both.process)
    assert both.stop() == 0
    assert not any(Path(f"/proc/{child}").exists() for child in children)
