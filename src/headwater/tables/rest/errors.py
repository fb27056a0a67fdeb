"""Errors of the catalog, with the status and type that the REST specification gives them.

RestError
├── BadRequest         400   the request is malformed, or has no route
├── Forbidden          403   the table is a topic's log, or the location is not the user's
├── NotFound           404   no such namespace, table or view
├── Unsupported        406   part of the specification, not offered by this catalog
├── Conflict           409   it exists, is not empty, or has changed meanwhile
├── Unprocessable      422   the request contradicts itself
├── Unavailable        503   the catalog did not answer; a retry can help
└── StateUnknown       500   whether a commit landed is unknown
"""

import json
from http import HTTPStatus
from typing import ClassVar

from headwater.http.messages import Response


class RestError(Exception):
    """The root; ``kind`` is the ``type`` in an error's body, which Iceberg's clients read."""

    status: ClassVar[HTTPStatus]
    kind: str

    def __init__(self, message: str, kind: str | None = None) -> None:
        super().__init__(message)
        if kind is not None:
            self.kind = kind


class BadRequest(RestError):
    """Raised for a malformed request."""

    status = HTTPStatus.BAD_REQUEST
    kind = "BadRequestException"


class Forbidden(RestError):
    """Raised for changes that only Headwater makes, and for locations outside the warehouse."""

    status = HTTPStatus.FORBIDDEN
    kind = "ForbiddenException"


class NotFound(RestError):
    """Raised if nothing has the name; ``kind`` says what was looked for."""

    status = HTTPStatus.NOT_FOUND
    kind = "NotFoundException"


class Unsupported(RestError):
    """Raised for a part of the specification that this catalog does not offer."""

    status = HTTPStatus.NOT_ACCEPTABLE
    kind = "UnsupportedOperationException"


class Conflict(RestError):
    """Raised if the name is taken, or a requirement of a commit fails."""

    status = HTTPStatus.CONFLICT
    kind = "CommitFailedException"


class Unprocessable(RestError):
    """Raised if one key is to be both set and removed."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY
    kind = "UnprocessableEntityException"


class Unavailable(RestError):
    """Raised if the catalog did not answer; nothing was changed."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    kind = "ServiceUnavailableException"


class StateUnknown(RestError):
    """Raised if a commit may have landed: a client must check, and delete no files before."""

    status = HTTPStatus.INTERNAL_SERVER_ERROR
    kind = "CommitStateUnknownException"


def no_namespace(levels: tuple[str, ...]) -> NotFound:
    return NotFound(f"Namespace does not exist: {'.'.join(levels)}", "NoSuchNamespaceException")


def no_table(name: tuple[str, ...]) -> NotFound:
    return NotFound(f"Table does not exist: {'.'.join(name)}", "NoSuchTableException")


def refusal(status: HTTPStatus, reason: str) -> Response:
    """The specification's error body for a request that the HTTP server refuses itself.

    A request without a route gets 400, because 404 would mean that a table does not exist.
    """
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        return error_response(BadRequest(reason))
    kind = "".join(word.title() for word in status.phrase.split()) + "Exception"
    return _response(status, reason, kind)


def error_response(error: RestError) -> Response:
    return _response(error.status, str(error), error.kind)


def _response(status: HTTPStatus, reason: str, kind: str) -> Response:
    error = {"message": reason, "type": kind, "code": status.value}
    return Response(status=status, body=json.dumps({"error": error}).encode())
