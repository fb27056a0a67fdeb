"""An error reply for any request, built from the schemas of request and reply.

A handler that fails must still answer, in the API's own error fields. If the reply has an error
code at the top level, that one is set; otherwise each item that the request names gets the code.
"""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, get_args, get_origin

from kio.index import load_response_schema

from headwater.broker.network.replies import NoReply, Values
from headwater.errors import KafkaError, RequestSuperseded
from headwater.wire.error_codes import Code
from headwater.wire.messages.requests import Header
from headwater.wire.messages.schema import fields_of

_ARRAYS_WITHOUT_ANSWER: Final = frozenset({"forgotten_topics_data"})
_PARTITION_NAMES: Final = ("partition_index", "index", "partition")
_KEY_NAMES: Final = ("key", "name", "topic", "topic_name")


def reply_to_failure(request: Any, header: Header, error: Exception) -> Values | NoReply:
    """The reply for an error that a handler raised."""
    if isinstance(error, RequestSuperseded):
        return NoReply.CLOSE
    code, message = int(Code.UNKNOWN_SERVER_ERROR), "the broker failed; see its log"
    if isinstance(error, KafkaError):
        code, message = error.code, str(error)
    return error_reply(request, header.api_key, header.version, code, message)


def error_reply(request: Any, api_key: int, version: int, code: int, message: str) -> Values:
    """The reply that answers every item of ``request`` with ``code``."""
    return _mirror(request, load_response_schema(api_key, version), code, message)


def _mirror(asked: Any, schema: type[Any], code: int, message: str) -> Values:
    """``asked`` is an entity of the request, or a plain value that names one thing."""
    values: dict[str, Any] = {}
    nested: list[tuple[str, type[Any]]] = []
    for field in fields(schema):
        item = _entity_in(field.type)
        if field.name == "error_code":
            values["error_code"] = code
        elif field.name == "error_message":
            values["error_message"] = message
        elif item is not None and _has_error_code(item):
            nested.append((field.name, item))
        elif item is not None:
            shown = getattr(asked, field.name, None) or ()
            values[field.name] = [_mirror(one, item, code, message) for one in shown]
        elif hasattr(asked, field.name):
            _copy(asked, field.name, schema, values)
        elif field.name in _PARTITION_NAMES:
            values[field.name] = _first(asked, _PARTITION_NAMES)
        elif field.name in _KEY_NAMES:
            values[field.name] = _first(asked, _KEY_NAMES)
    if "error_code" not in values or _is_item(schema):
        for name, item in nested:
            values[name] = [_mirror(one, item, code, message) for one in _things_in(asked)]
    return values


def _copy(asked: Any, name: str, schema: Any, values: dict[str, Any]) -> None:
    """Copy a value of the request; null is left out if the reply's field is not nullable."""
    value = getattr(asked, name)
    if value is not None or name in _nullable_fields(schema):
        values[name] = value


@cache
def _nullable_fields(schema: Any) -> frozenset[str]:
    return frozenset(
        field.name for field in fields_of(schema) if field.nullable or field.type == "uuid"
    )


def _is_item(schema: type[Any]) -> bool:
    return not schema.__name__.endswith("Response")


def _first(asked: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        if hasattr(asked, name):
            return getattr(asked, name)
    return asked if isinstance(asked, int | str) else ""


def _things_in(asked: Any) -> Sequence[Any]:
    """The first array of the request that the reply has to answer item by item."""
    if not is_dataclass(asked):
        return ()
    for field in fields(asked):
        value = getattr(asked, field.name)
        if field.name == "dirs":  # AlterReplicaLogDirs: its reply is grouped by topic
            return [topic for each in value for topic in each.topics]
        if isinstance(value, tuple | list) and field.name not in _ARRAYS_WITHOUT_ANSWER:
            return value
    return ()


def _has_error_code(schema: type[Any]) -> bool:
    return any(
        field.name == "error_code"
        or ((item := _entity_in(field.type)) is not None and _has_error_code(item))
        for field in fields(schema)
    )


def _entity_in(annotation: Any) -> type[Any] | None:
    """The item type of an array field; None if the items are not entities."""
    for inner in (annotation, *get_args(annotation)):
        if get_origin(inner) is tuple:
            item: type[Any] = get_args(inner)[0]
            return item if hasattr(item, "__api_key__") else None
    return None
