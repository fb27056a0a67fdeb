"""Settings: which layer wins, and what a wrong one says."""

from pathlib import Path

import pytest

from headwater.config import HostPort, Settings, keys, load
from headwater.errors import ConfigurationError

MIB = 1 << 20
LOCAL = (0, 2, 8 * MIB, 8 * MIB, 24 * MIB)
REMOTE = (200, 4, 16 * MIB, 16 * MIB, 64 * MIB)


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "headwater.yaml"
    file.write_text(text)
    return file


def test_nothing_given_is_the_defaults() -> None:
    assert load(None, {}, {}) == Settings()


def test_a_flag_beats_a_variable_beats_the_file_beats_the_default(tmp_path: Path) -> None:
    file = written(tmp_path, "broker: {id: 2, rack: a, workers: 4}\ndata: from-file\n")
    settings = load(
        file, {"HEADWATER_BROKER_ID": "3", "HEADWATER_BROKER_RACK": "b"}, {"broker.id": "5"}
    )
    assert (settings.broker.id, settings.broker.rack) == (5, "b")
    assert (settings.broker.workers, settings.data) == (4, "from-file")
    assert settings.broker.listen == Settings().broker.listen


@pytest.mark.parametrize("key", [key.name for key in keys()])
def test_every_key_is_described_and_can_be_set_by_its_variable(key: str) -> None:
    setting = next(each for each in keys() if each.name == key)
    assert setting.description
    assert setting.allowed
    value = "" if setting.default is None else str(setting.default)
    assert load(None, {setting.variable: value}, {}) == Settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("broker: {idd: 3}", "unknown setting broker.idd; did you mean broker.id?"),
        ("quux: 1", "unknown setting quux; known here: data, metadata, objects"),
        ("broker: {id: -1}", "broker.id is -1; expected an integer ≥ 0 and ≤ 2147483647"),
        ("broker: {id: one}", "broker.id is 'one'; expected an integer"),
        ("broker: 3", "broker is 3; expected a mapping of settings"),
        ("[1]", "is [1]; expected a mapping of settings"),
        ("broker: {listen: '9092'}", "broker.listen is '9092'; expected HOST:PORT"),
        ("broker: {listen: 'a:65536'}", "broker.listen is 'a:65536'; expected HOST:PORT"),
        ("logging: {format: xml}", "logging.format is 'xml'; expected one of auto, json, text"),
        ("a: [", "is not valid YAML"),
    ],
)
def test_a_wrong_file_names_itself_the_key_the_value_and_what_is_allowed(
    tmp_path: Path, text: str, message: str
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        load(file, {}, {})
    assert str(caught.value).startswith(f"{file}: {message}")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load(tmp_path / "absent.yaml", {}, {})


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert load(written(tmp_path, "# nothing\nbroker:\n"), {}, {}) == Settings()


def test_a_wrong_variable_names_itself() -> None:
    with pytest.raises(ConfigurationError, match=r"^HEADWATER_BROKER_ID: broker.id is 'x'; "):
        load(None, {"HEADWATER_BROKER_ID": "x"}, {})


def test_a_misspelt_variable_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="did you mean HEADWATER_LOG_FLUSH_BYTES"):
        load(None, {"HEADWATER_LOG_FLUSHBYTES": "1"}, {})


def test_variables_of_kubernetes_services_and_of_clients_are_left_alone() -> None:
    strangers = {
        "HEADWATER_BOOTSTRAP": "127.0.0.1:9092",
        "HEADWATER_PORT": "tcp://10.0.0.1:9092",
        "HEADWATER_PORT_9092_TCP_ADDR": "10.0.0.1",
        "HEADWATER_SERVICE_HOST": "10.0.0.1",
        "HEADWATER_BROKER_SERVICE_PORT": "9092",
    }
    assert load(None, strangers, {}) == Settings()


def test_the_embedded_stores_live_in_the_data_directory(tmp_path: Path) -> None:
    settings = load(None, {}, {"data": f"{tmp_path}/a b"})
    assert settings.metadata_url == f"sqlite:///{tmp_path}/a%20b/metadata.db"
    assert settings.objects_url == f"file://{tmp_path}/a%20b/objects"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (None, LOCAL),
        ("memory://", LOCAL),
        ("s3://bucket", REMOTE),
        ("gs://bucket", REMOTE),
        ("az://bucket", REMOTE),
    ],
)
def test_the_object_store_decides_defaults_of_the_log(
    url: str | None, expected: tuple[int, int, int, int, int]
) -> None:
    log = load(None, {} if url is None else {"HEADWATER_OBJECTS": url}, {}).log
    assert (
        log.flush_interval_ms,
        log.uploads,
        log.flush_bytes,
        log.merge_bytes,
        log.buffer_bytes,
    ) == expected


def test_what_is_set_counts_for_every_store(tmp_path: Path) -> None:
    file = written(tmp_path, "log: {flush_interval_ms: 0, uploads: null, buffer_bytes: 2}")
    flags = {"objects": "s3://bucket", "log.flush_bytes": "1"}
    log = load(file, {"HEADWATER_LOG_MERGE_BYTES": "3"}, flags).log
    assert (log.flush_interval_ms, log.uploads, log.flush_bytes) == (0, 4, 1)
    assert (log.merge_bytes, log.buffer_bytes) == (3, 2)


def test_a_null_in_the_file_counts_as_not_set(tmp_path: Path) -> None:
    file = written(tmp_path, "broker: {id: null, rack: null}\nobjects: null\n")
    assert load(file, {}, {}) == Settings()
    with pytest.raises(ConfigurationError, match=r"unknown setting broker\.idd"):
        load(written(tmp_path, "broker: {idd: null}"), {}, {})


@pytest.mark.parametrize("text", ["127.0.0.1:9092", "[::1]:9092", "broker.example:1"])
def test_an_address_reads_back_as_it_was_written(text: str) -> None:
    assert str(HostPort.parse(text)) == text


def test_an_address_moves_by_ports_but_any_port_stays_any() -> None:
    assert HostPort("h", 9092).shifted(2) == HostPort("h", 9094)
    assert HostPort("h", 0).shifted(2) == HostPort("h", 0)
