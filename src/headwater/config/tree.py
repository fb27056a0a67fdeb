"""The tree of all settings, and what each of its keys takes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct

from headwater.config.broker import BrokerSettings, LoggingSettings, MetricsSettings
from headwater.config.groups import GroupSettings
from headwater.config.log import LogSettings
from headwater.config.tables import PipelineSettings, TableSettings


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
