"""What the catalog answers when it cannot do what was asked, by the REST specification.

RestError
├── BadRequest         400   the request is not one
├── Forbidden          403   the table is a topic's log, or the place is not the user's
├── NotFound           404   no such namespace, table or view
├── Unsupported        406   the specification has it, this catalog has not
├── Conflict           409   it exists, is not empty, or changed meanwhile
├── Unprocessable      422   the request contradicts itself
├── Unavailable        503   the catalog below did not answer; a retry can help
└── StateUnknown       500   the catalog did not say whether a commit landed
"""

import json
from http import HTTPStatus
from typing import ClassVar

from headwater.http1 import Response


class RestError(Exception):
    """The root; ``kind`` is the name by which Iceberg's clients know an error."""

    status: ClassVar[HTTPStatus]
    kind: str

    def __init__(self, message: str, kind: str | None = None) -> None:
        super().__init__(message)
        if kind is not None:
            self.kind = kind


class BadRequest(RestError):
    """Raised for what is malformed or means nothing."""

    status = HTTPStatus.BAD_REQUEST
    kind = "BadRequestException"


class Forbidden(RestError):
    """Raised for changes that only Headwater makes, and for places outside the warehouse."""

    status = HTTPStatus.FORBIDDEN
    kind = "ForbiddenException"


class NotFound(RestError):
    """Raised where the name has nothing behind it; ``kind`` says what was looked for."""

    status = HTTPStatus.NOT_FOUND
    kind = "NotFoundException"


class Unsupported(RestError):
    """Raised for routes of the specification that this catalog does not offer."""

    status = HTTPStatus.NOT_ACCEPTABLE
    kind = "UnsupportedOperationException"


class Conflict(RestError):
    """Raised where something else holds the name, or a requirement of a commit fails."""

    status = HTTPStatus.CONFLICT
    kind = "CommitFailedException"


class Unprocessable(RestError):
    """Raised where a key is both to be set and to be removed."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY
    kind = "UnprocessableEntityException"


class Unavailable(RestError):
    """Raised where nothing was changed since the catalog could not be asked."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    kind = "ServiceUnavailableException"


class StateUnknown(RestError):
    """Raised where a commit may have landed: a client must look, and must not clean up."""

    status = HTTPStatus.INTERNAL_SERVER_ERROR
    kind = "CommitStateUnknownException"


def no_namespace(levels: tuple[str, ...]) -> NotFound:
    return NotFound(f"Namespace does not exist: {'.'.join(levels)}", "NoSuchNamespaceException")


def no_table(name: tuple[str, ...]) -> NotFound:
    return NotFound(f"Table does not exist: {'.'.join(name)}", "NoSuchTableException")


def refusal(status: HTTPStatus, reason: str, kind: str | None = None) -> Response:
    """An error as the specification has it."""
    kind = kind or "".join(word.title() for word in status.phrase.split()) + "Exception"
    error = {"message": reason, "type": kind, "code": status.value}
    return Response(status=status, body=json.dumps({"error": error}).encode())


def answer_error(error: RestError) -> Response:
    return refusal(error.status, str(error), error.kind)
