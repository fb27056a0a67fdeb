"""Bodies of requests, as the REST specification has them.

pyiceberg's own models serve where they take what the specification allows; these take bodies of
which pyiceberg itself always sends more.
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
        # Some clients send numbers and booleans as such.
        return transform_dict_value_to_str(properties) if isinstance(properties, dict) else {}


class CreateNamespaceRequest(_Propertied):
    """A namespace that does not exist yet."""

    namespace: tuple[str, ...]


class UpdateNamespacePropertiesRequest(IcebergBaseModel):
    """Keys to remove, and keys to set."""

    removals: tuple[str, ...] = ()
    updates: dict[str, str] = Field(default_factory=dict)


class CreateTableRequest(_Propertied):
    """A table that does not exist yet, or the first half of a transaction that creates it."""

    name: str
    location: str | None = None
    table_schema: Schema = Field(alias="schema")
    partition_spec: PartitionSpec | None = Field(alias="partition-spec", default=None)
    write_order: SortOrder | None = Field(alias="write-order", default=None)
    stage_create: bool = Field(alias="stage-create", default=False)


class RegisterTableRequest(IcebergBaseModel):
    """A table that exists by its metadata file only."""

    name: str
    metadata_location: str = Field(alias="metadata-location")
    overwrite: bool = False


class TableReference(IcebergBaseModel):
    """A table's full name."""

    namespace: tuple[str, ...]
    name: str


class RenameTableRequest(IcebergBaseModel):
    """From a name to another, in the same or another namespace."""

    source: TableReference
    destination: TableReference


class CommitTableRequest(IcebergBaseModel):
    """What must hold, and what changes then."""

    identifier: TableReference | None = None
    requirements: tuple[TableRequirement, ...] = ()
    updates: tuple[TableUpdate, ...] = ()


_MOST_FAULTS = 3

Model = TypeVar("Model", bound=pydantic.BaseModel)


def parse(model: type[Model], body: bytes) -> Model:
    """A request's body. Raises ``BadRequest`` with what is wrong, and where."""
    try:
        return model.model_validate_json(body)
    except pydantic.ValidationError as error:
        faults = [
            f"{'.'.join(str(step) for step in fault['loc']) or 'body'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)[:_MOST_FAULTS]
        ]
        raise BadRequest(f"malformed request: {'; '.join(faults)}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        # pyiceberg's own validators let these through.
        raise BadRequest(f"malformed request: {error}") from error
