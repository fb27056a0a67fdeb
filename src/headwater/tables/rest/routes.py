"""Which operation a request asks for.

Routes stand here as the specification writes them, and as ``GET /v1/config`` lists those that
this catalog serves. It has one warehouse, so the optional prefix is not part of any path.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote_plus

from headwater.tables.rest.answers import BadRequest

SERVED: Final = {
    "GET /v1/config": "config",
    "GET /v1/{prefix}/namespaces": "list_namespaces",
    "POST /v1/{prefix}/namespaces": "create_namespace",
    "GET /v1/{prefix}/namespaces/{namespace}": "load_namespace",
    "HEAD /v1/{prefix}/namespaces/{namespace}": "namespace_exists",
    "DELETE /v1/{prefix}/namespaces/{namespace}": "drop_namespace",
    "POST /v1/{prefix}/namespaces/{namespace}/properties": "update_namespace",
    "GET /v1/{prefix}/namespaces/{namespace}/tables": "list_tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables": "create_table",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}": "load_table",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}": "table_exists",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}": "commit_table",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}": "drop_table",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials": "load_credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics": "report_metrics",
    "POST /v1/{prefix}/namespaces/{namespace}/register": "register_table",
    "POST /v1/{prefix}/tables/rename": "rename_table",
    "GET /v1/{prefix}/namespaces/{namespace}/views": "list_views",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}": "load_view",
    "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}": "load_view",
}

UNSUPPORTED: Final = (
    "POST /v1/oauth/tokens",
    "POST /v1/{prefix}/transactions/commit",
    "POST /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/namespaces/{namespace}/register-view",
    "POST /v1/{prefix}/views/rename",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/unregister",
    "GET /v1/{prefix}/namespaces/{namespace}/functions",
    "GET /v1/{prefix}/namespaces/{namespace}/functions/{function}",
)
"""The specification's others: known, and refused as such."""

_MOST_FIELDS = 64


@dataclass(frozen=True, slots=True)
class Route:
    """An operation, with what its path and query name."""

    operation: str
    """Empty for one of ``UNSUPPORTED``."""
    path: Mapping[str, str]
    query: Mapping[str, str]


def find_route(method: str, target: str) -> Route:
    r"""Raises ``BadRequest`` where there is none.

    >>> route = find_route("GET", "/v1/namespaces/a%1Fb/tables/t%2F1?snapshots=refs")
    >>> route.operation, dict(route.path), dict(route.query)
    ('load_table', {'namespace': 'a\x1fb', 'table': 't/1'}, {'snapshots': 'refs'})
    """
    path, _, query = target.partition("?")
    segments = path.rstrip("/").split("/")[1:]
    try:
        decoded = [unquote_plus(segment, errors="strict") for segment in segments]
        fields = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        raise BadRequest(f"malformed address: {error}") from None
    for pattern, operation in _PATTERNS:
        if pattern[0] == method and (names := _match(pattern[1:], segments, decoded)) is not None:
            return Route(operation, names, dict(fields))
    raise BadRequest(f"no route for {method} {path}")


def _match(
    pattern: tuple[str, ...], segments: list[str], decoded: list[str]
) -> dict[str, str] | None:
    if len(pattern) != len(segments):
        return None
    names = {}
    for wanted, raw, text in zip(pattern, segments, decoded, strict=True):
        if wanted.startswith("{"):
            names[wanted[1:-1]] = text
        elif wanted != raw:
            return None
    return names


def _compiled(route: str) -> tuple[str, ...]:
    method, _, path = route.partition(" ")
    return (method, *path.replace("/{prefix}", "").split("/")[1:])


_PATTERNS: Final = [
    *((_compiled(route), operation) for route, operation in SERVED.items()),
    *((_compiled(route), "") for route in UNSUPPORTED),
]
