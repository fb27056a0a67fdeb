"""The tree of all settings, and a description of each of its keys."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints
from urllib.parse import quote

import msgspec
from msgspec import Meta

from headwater.broker.settings import BrokerSettings
from headwater.groups.settings import GroupSettings
from headwater.http.settings import HttpSettings
from headwater.log.settings import LogSettings
from headwater.pipeline.settings import PipelineSettings
from headwater.tables.settings import TableSettings
from headwater.telemetry.settings import LoggingSettings, MetricsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of ``headwater serve``. Each section is declared in the package it configures.

    A field that has no description is not a setting of operators.
    """

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
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    log: LogSettings = field(default_factory=LogSettings)
    groups: GroupSettings = field(default_factory=GroupSettings)
    tables: TableSettings = field(default_factory=TableSettings)
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)

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
    """One setting: its dotted name, its type, its default and its description."""

    name: str
    type: Any
    default: Any
    description: str

    @property
    def variable(self) -> str:
        return "HEADWATER_" + self.name.replace(".", "_").upper()

    @property
    def allowed(self) -> str:
        """The allowed values in words, such as ``an integer ≥ 1``."""
        schema = msgspec.json.schema(self.type)
        choices = schema.get("anyOf", [schema])
        return " or ".join(_describe(choice) for choice in choices)


def keys(section: type[Any] = Settings, prefix: str = "") -> Iterator[Key]:
    """Every setting, in the order of declaration."""
    hints = get_type_hints(section, include_extras=True)
    for each in fields(section):
        name, kind = f"{prefix}{each.name}", hints[each.name]
        if isinstance(kind, type) and is_dataclass(kind):
            yield from keys(kind, f"{name}.")
        elif description := msgspec.json.schema(kind).get("description"):
            yield Key(name, kind, each.default, description)


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
