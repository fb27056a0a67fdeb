"""The route that a request asks for, by aiohttp's router."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from headwater.http.messages import Refused
from headwater.http.mounts import Mount, Route

MAX_SEGMENTS: Final = 64
"""aiohttp looks a path up once for each of its segments."""

_SLASHES: Final = "{slashes:/*}"


@dataclass(frozen=True, slots=True)
class Match:
    """A route, with what its variables match."""

    route: Route
    variables: Mapping[str, str]
    """Percent-encoded, as they were sent."""


class NoRoute(Refused):
    """Raised if no route has the path (404), or none with the method (405)."""

    def __init__(self, status: HTTPStatus, reason: str, allowed: Sequence[str] = ()) -> None:
        super().__init__(status, reason)
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class _Target:
    route: Route
    positions: Mapping[str, int]
    """By variable: the number of its segment in the path."""


class Router:
    """Finds routes of mounts."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self._dispatcher = web.UrlDispatcher()
        self._targets: dict[web.AbstractRoute, _Target] = {}
        for mount in mounts:
            for route in mount.routes:
                segments = f"{mount.prefix}{route.path}".split("/")
                names = {
                    n: segment[1:-1] for n, segment in enumerate(segments) if segment[:1] == "{"
                }
                pattern = "/".join(
                    f"{{variable{n}:[^/]+}}" if n in names else segment
                    for n, segment in enumerate(segments)
                )
                added = self._dispatcher.add_route(route.method, pattern + _SLASHES, _unused)
                positions = {name: n for n, name in names.items()}
                self._targets[added] = _Target(route, positions)

    async def find(self, request: web.Request) -> Match:
        """Raises ``NoRoute``."""
        path = request.raw_path.partition("?")[0]
        # aiohttp decodes variables; a mount may decode them differently, so they are cut out here.
        segments = path.split("/")
        if len(segments) > MAX_SEGMENTS:
            raise _no_route(request.method, path)
        found = await self._dispatcher.resolve(request)
        if isinstance(found.http_exception, web.HTTPMethodNotAllowed):
            allowed = sorted(found.http_exception.allowed_methods)
            reason = f"{request.method} is not allowed here, only {', '.join(allowed)}"
            raise NoRoute(HTTPStatus.METHOD_NOT_ALLOWED, reason, allowed)
        target = self._targets.get(found.route)
        if target is None:
            raise _no_route(request.method, path)
        variables = {name: segments[position] for name, position in target.positions.items()}
        return Match(target.route, variables)


def _no_route(method: str, path: str) -> NoRoute:
    return NoRoute(HTTPStatus.NOT_FOUND, f"no route for {method} {path}")


async def _unused(request: web.Request) -> web.StreamResponse:
    raise NotImplementedError
