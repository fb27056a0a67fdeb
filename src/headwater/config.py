"""One typed tree of settings, read from a YAML file, the environment and the command line.

Rising priority: the defaults below, the file (``--config``), ``HEADWATER_*`` variables, flags.
A key ``flush_bytes`` of section ``log`` is ``log: {flush_bytes: ...}`` in the file and
``HEADWATER_LOG_FLUSH_BYTES`` in the environment, where an empty one counts as not set. Every
key is described where it stands; ``docs/reference/configuration.md`` is generated from that.

``load`` raises ``ConfigurationError`` for an unknown key or a value that is not allowed; its
text names where the value came from, the key, the value, and what is allowed.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct

import headwater.broker.settings
import headwater.groups.settings
import headwater.log.settings
import headwater.pipeline.settings
import headwater.tables.settings
from headwater.errors import ConfigurationError

_LOG = headwater.log.settings.LogSettings()
_BROKER = headwater.broker.settings.BrokerSettings()
_GROUPS = headwater.groups.settings.GroupSettings()
_TABLES = headwater.tables.settings.TableSettings()
_PIPELINE = headwater.pipeline.settings.PipelineSettings()

Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
HostPort = Annotated[
    str,
    Meta(
        pattern=r"^(\[[0-9A-Fa-f:.]+\]|[^:\s\[\]]+):"
        r"(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5]?[0-9]{1,4})$"
    ),
]


class BrokerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The broker: who it is, where it listens, what it takes."""

    id: Annotated[
        int,
        Meta(ge=0, le=2**31 - 1, description="This broker's id; worker N has this id + N."),
    ] = 1
    listen: Annotated[
        HostPort, Meta(description="Where clients connect; worker N listens on this port + N.")
    ] = "127.0.0.1:9092"
    advertise: Annotated[
        HostPort | None,
        Meta(description="The address that clients are told; the listening one when not set."),
    ] = None
    rack: Annotated[
        str | None,
        Meta(
            description="The zone that this broker runs in; clients name theirs in client.id, "
            "as zone_id=NAME, or in client.rack."
        ),
    ] = None
    workers: Annotated[
        int, Meta(ge=1, le=256, description="Broker processes to run, one per core at most.")
    ] = 1
    auto_create_topics: Annotated[
        bool, Meta(description="Create a topic when a client that allows it first names it.")
    ] = _BROKER.auto_create_topics
    num_partitions: Annotated[
        Positive, Meta(description="Partitions of a topic that is created without a number.")
    ] = _BROKER.num_partitions
    max_request_bytes: Annotated[
        Positive, Meta(description="A longer request closes its connection, unread.")
    ] = _BROKER.max_request_bytes
    max_queued_requests: Annotated[
        Positive,
        Meta(description="Unanswered requests of a connection before it is no longer read."),
    ] = _BROKER.max_queued_requests
    max_queued_bytes: Annotated[
        Positive, Meta(description="Waiting bytes of a connection before it is no longer read.")
    ] = _BROKER.max_queued_bytes
    fetch_max_bytes: Annotated[
        Positive, Meta(description="The most that one Fetch answer carries, the first batch apart.")
    ] = _BROKER.fetch_max_bytes
    max_fetch_sessions: Annotated[Natural, Meta(description="Incremental fetch sessions kept.")] = (
        1000
    )
    session_timeout_s: Annotated[
        Annotated[float, Meta(ge=1)],
        Meta(description="Seconds of silence after which others count this broker as gone."),
    ] = _BROKER.session_timeout_s
    enforce_owner: Annotated[
        bool,
        Meta(description="Send clients to the one broker that Metadata names for a partition."),
    ] = _BROKER.enforce_owner
    drain_timeout_s: Annotated[
        Annotated[float, Meta(ge=0)],
        Meta(description="Seconds that clients get to go to other brokers before this one stops."),
    ] = _BROKER.drain_timeout_s
    stop_timeout_s: Annotated[
        Annotated[float, Meta(ge=0)],
        Meta(description="Seconds that requests under way get to finish when the broker stops."),
    ] = _BROKER.stop_timeout_s


class LogSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The log: flushing, buffers, caches, merging and clean-up."""

    flush_bytes: Annotated[
        Positive | None,
        Meta(
            description="A buffer this full is flushed though a flush is under way: the largest "
            "object that a flush makes. When not set: 8 MiB on local stores, 16 MiB on others."
        ),
    ] = None
    flush_interval_ms: Annotated[
        Natural | None,
        Meta(
            description="The least time between two flushes, which bounds paid requests. "
            "When not set: 0 on local stores, 250 on others."
        ),
    ] = None
    uploads: Annotated[
        Positive, Meta(description="Flushes that may be under way at once; commits keep order.")
    ] = _LOG.uploads
    inline_bytes: Annotated[
        Natural, Meta(description="A flush up to this size travels in its metadata transaction.")
    ] = _LOG.inline_bytes
    buffer_bytes: Annotated[
        Positive | None,
        Meta(
            description="Uncommitted bytes held before sockets are no longer read. When not set: "
            "24 MiB on local stores, 64 MiB on others."
        ),
    ] = None
    append_timeout_ms: Annotated[
        Positive, Meta(description="After this a producer gets an error that it may retry.")
    ] = _LOG.append_timeout_ms
    cache_bytes: Annotated[
        Positive, Meta(description="Recent and read-ahead record data kept in memory.")
    ] = _LOG.cache_bytes
    read_bytes: Annotated[
        Positive, Meta(description="The least that is read of a large chunk at once.")
    ] = _LOG.read_bytes
    window_entries: Annotated[
        Positive, Meta(description="Recent index entries of a stream kept in memory.")
    ] = _LOG.window_entries
    merge_interval_ms: Annotated[
        Positive, Meta(description="How often small entries are merged into large objects.")
    ] = _LOG.merge_interval_ms
    merge_fan_in: Annotated[
        Annotated[int, Meta(ge=2)],
        Meta(description="Entries of about one size that make a merge worth while."),
    ] = _LOG.merge_fan_in
    merge_small_bytes: Annotated[
        Positive, Meta(description="Entries of this size and more are not merged.")
    ] = _LOG.merge_small_bytes
    merge_bytes: Annotated[
        Positive, Meta(description="The most that one merge puts into an object.")
    ] = _LOG.merge_bytes
    sweep_interval_ms: Annotated[
        Positive, Meta(description="How often every stream is looked at for retention.")
    ] = _LOG.sweep_interval_ms
    gc_interval_ms: Annotated[
        Positive, Meta(description="How often objects without a reference are looked for.")
    ] = _LOG.gc_interval_ms
    gc_grace_ms: Annotated[
        Natural, Meta(description="How long an object stays after its last reference went.")
    ] = _LOG.gc_grace_ms
    orphan_grace_ms: Annotated[
        Natural,
        Meta(description="How long a broker is gone before its unfinished objects are removed."),
    ] = _LOG.orphan_grace_ms
    snapshot_interval_ms: Annotated[
        Natural,
        Meta(description="How often the metadata is copied to the object store; 0: never."),
    ] = _LOG.snapshot_interval_ms
    snapshots_kept: Annotated[
        Positive,
        Meta(description="Copies of the metadata that are kept, with all that they refer to."),
    ] = _LOG.snapshots_kept
    producer_expiration_ms: Annotated[
        Positive, Meta(description="How long an idle idempotent producer is remembered.")
    ] = _LOG.producer_expiration_ms


class GroupSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Consumer groups and the offsets that they commit."""

    initial_rebalance_delay_ms: Annotated[
        Natural, Meta(description="How long an empty group waits for more members.")
    ] = _GROUPS.initial_rebalance_delay_ms
    min_session_timeout_ms: Annotated[
        Positive, Meta(description="The shortest session that a classic member may ask for.")
    ] = _GROUPS.min_session_timeout_ms
    max_session_timeout_ms: Annotated[
        Positive, Meta(description="The longest session that a classic member may ask for.")
    ] = _GROUPS.max_session_timeout_ms
    max_size: Annotated[Positive, Meta(description="The most members that a group may have.")] = (
        _GROUPS.max_size
    )
    consumer_session_timeout_ms: Annotated[
        Positive,
        Meta(description="Silence after which a member of the new protocol counts as gone."),
    ] = _GROUPS.consumer_session_timeout_ms
    consumer_heartbeat_interval_ms: Annotated[
        Positive, Meta(description="How often members of the new protocol are told to report.")
    ] = _GROUPS.consumer_heartbeat_interval_ms
    consumer_regex_refresh_interval_ms: Annotated[
        Positive,
        Meta(description="How often patterns are looked up again; a new topic does it at once."),
    ] = _GROUPS.consumer_regex_refresh_interval_ms
    consumer_migration_policy: Annotated[
        Literal["bidirectional", "upgrade", "downgrade", "disabled"],
        Meta(description="Which way a group may change between the two protocols by itself."),
    ] = "bidirectional"
    offsets_retention_minutes: Annotated[
        Positive, Meta(description="How long the offsets of a group without members are kept.")
    ] = _GROUPS.offsets_retention_minutes
    offsets_retention_check_interval_ms: Annotated[
        Positive, Meta(description="How often offsets are looked at for expiry.")
    ] = _GROUPS.offsets_retention_check_interval_ms
    offset_metadata_max_bytes: Annotated[
        Natural, Meta(description="The most that a client may attach to a committed offset.")
    ] = _GROUPS.offset_metadata_max_bytes


class TableSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Topics as Iceberg tables: the catalog, names, and the history that is kept."""

    catalog: Annotated[
        str,
        Meta(
            min_length=1,
            description="The catalog's type: `sql` or `rest`; pyiceberg's others (`glue`, `hive`, "
            "...) are passed through and not tested here.",
        ),
    ] = _TABLES.catalog
    catalog_uri: Annotated[
        str | None,
        Meta(
            description="The catalog's address; for `sql`, a SQLite file in the data directory "
            "when not set."
        ),
    ] = _TABLES.catalog_uri
    catalog_options: Annotated[
        str,
        Meta(description="More of pyiceberg's catalog properties, as NAME=VALUE, NAME=VALUE."),
    ] = _TABLES.catalog_options
    name: Annotated[
        str,
        Meta(
            min_length=1,
            description="A table's name; `<topic>` stands for the topic's, its dots as `_`.",
        ),
    ] = _TABLES.name
    keep_snapshots: Annotated[
        Positive, Meta(description="The newest snapshots that a table keeps, whatever their age.")
    ] = _TABLES.keep_snapshots
    snapshot_age_ms: Annotated[
        Natural, Meta(description="How long a table keeps a snapshot for readers and time travel.")
    ] = _TABLES.snapshot_age_ms
    max_snapshots: Annotated[
        Positive,
        Meta(description="The most snapshots that a table keeps; a commit's cost grows with them."),
    ] = _TABLES.max_snapshots
    catalog_listen: Annotated[
        HostPort | None,
        Meta(
            description="Where the built-in Iceberg REST catalog is served, port + N for worker N; "
            "nowhere when not set."
        ),
    ] = _TABLES.catalog_listen
    catalog_vends_credentials: Annotated[
        bool,
        Meta(
            description="Hand the broker's own S3 credentials to every engine that loads a table."
        ),
    ] = _TABLES.catalog_vends_credentials


class PipelineSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The Spark pipeline that turns what topics hold into files of their tables."""

    master: Annotated[
        str,
        Meta(
            min_length=1, description="Spark's master, such as `local[*]` or `spark://HOST:PORT`."
        ),
    ] = _PIPELINE.master
    file_bytes: Annotated[
        int,
        Meta(
            ge=2**20,
            le=2**32,
            description="As many bytes of record batches become one file; 128 to 512 MiB is best.",
        ),
    ] = _PIPELINE.file_bytes
    max_age_ms: Annotated[
        Natural,
        Meta(description="`--follow` compacts what is older, though it makes a small file."),
    ] = _PIPELINE.max_age_ms
    max_entries: Annotated[
        Positive,
        Meta(description="`--follow` compacts so many small entries of a partition's index."),
    ] = _PIPELINE.max_entries
    interval_ms: Annotated[
        Positive, Meta(description="`--follow` looks at every partition so often.")
    ] = _PIPELINE.interval_ms
    claim_ms: Annotated[
        Annotated[int, Meta(ge=1000)],
        Meta(description="A job whose process was silent for so long is taken up by another."),
    ] = _PIPELINE.claim_ms


class MetricsSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Prometheus metrics, health and readiness over HTTP."""

    listen: Annotated[
        HostPort | None,
        Meta(description="Where they are served, port + N for worker N; nowhere when not set."),
    ] = None


class LoggingSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The process's own log."""

    format: Annotated[
        Literal["auto", "json", "text"],
        Meta(description="`auto` is `text` on a terminal and one JSON object per line elsewhere."),
    ] = "auto"
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least level written.")
    ] = "info"


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that ``headwater serve`` can be told."""

    data: Annotated[
        str, Meta(min_length=1, description="The directory of the embedded stores.")
    ] = "headwater-data"
    metadata: Annotated[
        str | None,
        Meta(description="The metadata store's URL; `sqlite:` in the data directory when not set."),
    ] = None
    objects: Annotated[
        str | None,
        Meta(description="The object store's URL; `file:` in the data directory when not set."),
    ] = None
    broker: BrokerSettings = BrokerSettings()
    log: LogSettings = LogSettings()
    groups: GroupSettings = GroupSettings()
    tables: TableSettings = TableSettings()
    pipeline: PipelineSettings = PipelineSettings()
    metrics: MetricsSettings = MetricsSettings()
    logging: LoggingSettings = LoggingSettings()

    @property
    def metadata_url(self) -> str:
        return self.metadata or f"sqlite:///{_url_path(self.data)}/metadata.db"

    @property
    def objects_url(self) -> str:
        return self.objects or f"file://{_url_path(self.data)}/objects"


def _url_path(directory: str) -> str:
    return quote(str(Path(directory).absolute()))


@dataclass(frozen=True, slots=True)
class Key:
    """One setting: its dotted name, what it takes, and what it is when nobody says."""

    name: str
    type: Any
    default: Any
    description: str

    @property
    def variable(self) -> str:
        return "HEADWATER_" + self.name.replace(".", "_").upper()

    @property
    def allowed(self) -> str:
        """What a value may be, in words: ``an integer ≥ 1``."""
        schema = msgspec.json.schema(self.type)
        choices = schema.get("anyOf", [schema])
        return " or ".join(_describe(choice) for choice in choices)


def keys(struct: type[Struct] = Settings, prefix: str = "") -> Iterator[Key]:
    """Every setting there is, in the order in which they are declared."""
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        name = f"{prefix}{field.name}"
        if isinstance(field.default, Struct):
            yield from keys(type(field.default), f"{name}.")
        else:
            schema = msgspec.json.schema(hints[field.name])
            yield Key(name, hints[field.name], field.default, schema["description"])


def load(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Settings:
    """Settings from all layers; ``flags`` maps dotted names to what the command line gave."""
    known = {key.name: key for key in keys()}
    values: dict[str, object] = {}
    if file is not None:
        for name, value in _read_file(file):
            values[name] = _checked(_lookup(known, name, str(file)), value, str(file), strict=True)
    variables = {key.variable: key for key in known.values()}
    for variable, text in environment.items():
        if not text:
            continue
        if (key := variables.get(variable)) is not None:
            values[key.name] = _checked(key, text, variable, strict=False)
        else:
            _refuse_misspelt(variable, list(variables))
    for name, value in flags.items():
        values[name] = _checked(known[name], value, "the command line", strict=False)
    return _assemble(values)


def _read_file(file: Path) -> Iterator[tuple[str, object]]:
    import yaml

    try:
        tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(f"{file}: is not valid YAML: {reason}") from error
    if tree is None:
        return
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{file}: is {tree!r}; expected a mapping of settings")
    sections = {
        field.name: type(field.default)
        for field in msgspec.structs.fields(Settings)
        if isinstance(field.default, Struct)
    }
    for name, value in tree.items():
        if name not in sections:
            yield str(name), value
        elif isinstance(value, dict):
            yield from ((f"{name}.{key}", inner) for key, inner in value.items())
        elif value is not None:
            raise ConfigurationError(f"{file}: {name} is {value!r}; expected a mapping of settings")


def _lookup(known: Mapping[str, Key], name: str, source: str) -> Key:
    if name in known:
        return known[name]
    section = name.rpartition(".")[0]
    near = difflib.get_close_matches(name, known, n=1)
    siblings = [key for key in known if key.rpartition(".")[0] == section]
    hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(siblings)}"
    raise ConfigurationError(f"{source}: unknown setting {name}; {hint}")


_KUBERNETES = re.compile(r"_(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)$")


def _refuse_misspelt(variable: str, known: Sequence[str]) -> None:
    """Refuse a variable that is surely meant for us and is not a setting.

    Kubernetes puts variables with this prefix into every container beside a service that is
    named ``headwater``, and commands have some of their own, so not every stranger is wrong.
    """
    if not variable.startswith("HEADWATER_") or _KUBERNETES.search(variable):
        return
    near = difflib.get_close_matches(variable, known, n=1, cutoff=0.85)
    if near:
        raise ConfigurationError(f"{variable}: unknown setting; did you mean {near[0]}?")


def _checked(key: Key, value: object, source: str, *, strict: bool) -> object:
    try:
        return msgspec.convert(value, key.type, strict=strict)
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"{source}: {key.name} is {value!r}; expected {key.allowed}"
        ) from error


def _assemble(values: Mapping[str, object]) -> Settings:
    sections: dict[str, dict[str, object]] = {}
    top: dict[str, object] = {}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        (sections.setdefault(section, {}) if section else top)[key] = value
    for field in msgspec.structs.fields(Settings):
        if field.name in sections:
            top[field.name] = msgspec.structs.replace(field.default, **sections[field.name])
    return Settings(**top)  # type: ignore[arg-type]


def _describe(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"])
    match schema["type"]:
        case "null":
            return "nothing (null)"
        case "boolean":
            return "true or false"
        case "integer" | "number" as kind:
            text = "an integer" if kind == "integer" else "a number"
            if "minimum" in schema:
                text += f" ≥ {schema['minimum']}"
            if "maximum" in schema:
                text += f" and ≤ {schema['maximum']}"
            return text
        case _:
            return "HOST:PORT, such as 127.0.0.1:9092" if "pattern" in schema else "some text"


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port, as they stand in a ``HOST:PORT`` setting."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read ``HOST:PORT``; an IPv6 host stands in brackets.

        >>> Address.parse("[::1]:9092")
        Address(host='::1', port=9092)
        """
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise ConfigurationError(f"{text!r} is not an address; expected HOST:PORT")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def shifted(self, by: int) -> "Address":
        """The address ``by`` ports further on; port 0, any free one, stays."""
        return Address(self.host, self.port + by if self.port else 0)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
