"""The routes of the catalog, and what the path and query of a request name.

Routes are written as in the specification, because ``GET /v1/config`` lists the served routes in
this form. The catalog has one warehouse, so the optional prefix is not part of any path.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import parse_qsl, unquote_plus

from headwater.http.messages import HttpRequest
from headwater.tables.rest.errors import BadRequest

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
"""The other routes of the specification: refused with 406 instead of 400."""

_MAX_QUERY_FIELDS: Final = 64


def method_and_path(route: str) -> tuple[str, str]:
    """A route as this catalog serves it.

    >>> method_and_path("POST /v1/{prefix}/tables/rename")
    ('POST', '/v1/tables/rename')
    """
    method, _, path = route.partition(" ")
    return method, path.replace("/{prefix}", "")


@dataclass(frozen=True, slots=True)
class Names:
    r"""What the path and the query of a request name, decoded.

    >>> variables = {"namespace": "a%1Fb", "table": "t%2F1"}
    >>> Names.of(HttpRequest(method="GET", target="/?pageSize=5", variables=variables))
    Names(path={'namespace': 'a\x1fb', 'table': 't/1'}, query={'pageSize': '5'})
    """

    path: Mapping[str, str]
    query: Mapping[str, str]

    @classmethod
    def of(cls, request: HttpRequest) -> Self:
        """Raises ``BadRequest`` if something is not percent-encoded UTF-8."""
        try:
            path = {
                variable: unquote_plus(value, errors="strict")
                for variable, value in request.variables.items()
            }
            query = parse_qsl(
                request.query,
                keep_blank_values=True,
                errors="strict",
                max_num_fields=_MAX_QUERY_FIELDS,
            )
        except ValueError as error:
            raise BadRequest(f"malformed address: {error}") from None
        return cls(path, dict(query))
