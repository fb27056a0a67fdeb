"""A mount: routes below one prefix that share one error format.

The server answers errors before and beside a route (a malformed request, an unknown path, a method
that a path does not have, a bug in a handler) in the format of the mount that the path belongs to.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from headwater.http.messages import HttpRequest, Response

Handler = Callable[[HttpRequest], Awaitable[Response]]
Refusal = Callable[[HTTPStatus, str], Response]
"""The error reply of a status and a reason, which is one line of ASCII text."""

TEXT = "text/plain; charset=utf-8"


def plain_refusal(status: HTTPStatus, reason: str) -> Response:
    """An error as one line of plain text."""
    return Response(status=status, body=f"{reason}\n".encode(), content_type=TEXT)


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path.

    A segment of the path in braces, such as ``/tables/{table}``, is a variable: it matches one
    segment of a request's path. A slash at the end of a request's path makes no difference.
    """

    method: str
    path: str
    handler: Handler


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """What attaches to a server."""

    routes: Sequence[Route]
    prefix: str = ""
    """Precedes the path of each route, such as ``/console``; empty for the whole server."""
    refusal: Refusal = plain_refusal
    max_body_bytes: int = 0
    """A longer body is refused with 413."""

    def holds(self, path: str) -> bool:
        """Whether the path is this mount's.

        >>> mount = Mount(routes=(), prefix="/v1")
        >>> mount.holds("/v1"), mount.holds("/v1/a"), mount.holds("/v10")
        (True, True, False)
        """
        return not self.prefix or path == self.prefix or path.startswith(f"{self.prefix}/")


def mount_of(path: str, mounts: Sequence[Mount]) -> Mount:
    """The mount with the longest prefix of a path; the first one if no mount holds it."""
    holding = [mount for mount in mounts if mount.holds(path)]
    return max(holding, key=lambda mount: len(mount.prefix), default=mounts[0])
