"""Several mounts on one server, each with its own errors."""

from http import HTTPStatus

from headwater.http.messages import HttpRequest, Response
from headwater.http.mounts import Mount, Route
from tests.support.http.raw import MOUNT, connect, listening


async def show(request: HttpRequest) -> Response:
    return Response(body=repr(dict(request.variables)).encode())


def refuse(status: HTTPStatus, reason: str) -> Response:
    return Response(status=status, body=f'{{"error": "{reason}"}}'.encode())


PAGES = Mount(prefix="/pages", routes=[Route("GET", "/{a}/x/{b}", show)], refusal=refuse)


async def test_each_mount_has_its_routes_and_its_errors() -> None:
    async with listening([MOUNT, PAGES]) as port, connect(port) as client:
        await client.ask("GET /echo")
        assert await client.status() == 200
        await client.ask("GET /pages/nothing")
        assert (await client.answer())[::2] == (
            404,
            b'{"error": "no route for GET /pages/nothing"}',
        )
        await client.ask("GET /pagesno")
        assert (await client.answer())[::2] == (404, b"no route for GET /pagesno\n")
        await client.ask("GET /pages/1/x/2", "Content-Length: 1", body="x")
        status, headers, _ = await client.answer()
        assert (status, headers["content-type"]) == (413, "application/json")


async def test_variables_are_given_as_they_were_sent() -> None:
    async with listening([PAGES]) as port, connect(port) as client:
        await client.ask("GET /pages/a%2fb%2F%1F/x/%FF+%25%7B{}?c=%2F")
        assert (await client.answer())[2] == b"{'a': 'a%2fb%2F%1F', 'b': '%FF+%25%7B{}'}"
