"""A request and a reply as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request whose head and body have arrived.

    >>> request = HttpRequest(method="GET", target="/v1/a%2Fb?x=%20")
    >>> request.path, request.query
    ('/v1/a%2Fb', 'x=%20')
    """

    method: str
    target: str
    """Path and query as they were sent, percent-encoded; begins with a slash."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The parts of the path that the route's variables match, percent-encoded."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By lower-case name; the values of a repeated header are joined by commas."""
    body: bytes = b""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The reply to a request. The server omits the body for HEAD, 204 and 304."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """Raised for a request that is not served; its connection closes after the reply."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
