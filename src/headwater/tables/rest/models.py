"""Bodies of requests, as in the REST specification.

These models allow all that the specification allows. pyiceberg's own ones, which are written for
its client, require fields that are optional.
"""

from typing import Any, TypeVar

import pydantic
from pydantic import Field
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import IcebergBaseModel
from pyiceberg.types import transform_dict_value_to_str

from headwater.tables.rest.errors import BadRequest


class _Propertied(IcebergBaseModel):
    properties: dict[str, str] = Field(default_factory=dict)

    @pydantic.field_validator("properties", mode="before")
    @classmethod
    def _as_text(cls, properties: Any) -> Any:
        # Some clients send numbers and booleans instead of strings.
        return transform_dict_value_to_str(properties) if isinstance(properties, dict) else {}


class CreateNamespaceRequest(_Propertied):
    """Creates a namespace."""

    namespace: tuple[str, ...]


class UpdateNamespacePropertiesRequest(IcebergBaseModel):
    """Removes and sets properties of a namespace."""

    removals: tuple[str, ...] = ()
    updates: dict[str, str] = Field(default_factory=dict)


class CreateTableRequest(_Propertied):
    """Creates a table, or begins a transaction that creates it."""

    name: str
    location: str | None = None
    table_schema: Schema = Field(alias="schema")
    partition_spec: PartitionSpec | None = Field(alias="partition-spec", default=None)
    write_order: SortOrder | None = Field(alias="write-order", default=None)
    stage_create: bool = Field(alias="stage-create", default=False)


class RegisterTableRequest(IcebergBaseModel):
    """Adds a table whose metadata file exists."""

    name: str
    metadata_location: str = Field(alias="metadata-location")
    overwrite: bool = False


class TableReference(IcebergBaseModel):
    """The full name of a table."""

    namespace: tuple[str, ...]
    name: str


class RenameTableRequest(IcebergBaseModel):
    """Renames a table, within a namespace or to another one."""

    source: TableReference
    destination: TableReference


class CommitTableRequest(IcebergBaseModel):
    """Requirements that must hold, and updates."""

    identifier: TableReference | None = None
    requirements: tuple[TableRequirement, ...] = ()
    updates: tuple[TableUpdate, ...] = ()


_MAX_FAULTS = 3

Model = TypeVar("Model", bound=pydantic.BaseModel)


def parse(model: type[Model], body: bytes) -> Model:
    """The body of a request. Raises ``BadRequest`` with each fault and its place."""
    try:
        return model.model_validate_json(body)
    except pydantic.ValidationError as error:
        faults = [
            f"{'.'.join(str(step) for step in fault['loc']) or 'body'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)[:_MAX_FAULTS]
        ]
        raise BadRequest(f"malformed request: {'; '.join(faults)}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        # pyiceberg's own validators raise these.
        raise BadRequest(f"malformed request: {error}") from error
