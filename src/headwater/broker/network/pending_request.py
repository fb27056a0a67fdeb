"""A request that is not answered yet."""

from typing import Any

from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import NoReply
from headwater.errors import MalformedRequest
from headwater.wire.messages.api_versions import ApiKey
from headwater.wire.messages.encoder import Segments
from headwater.wire.messages.requests import Header, Request, parse_request


class PendingRequest:
    """A request from its arrival until its reply has been handed to the socket.

    ``body`` is the frame's bytes until the request is started, then the parsed request, and None
    when the handler needs it no longer. ``client_id`` is None until the request is parsed.
    """

    __slots__ = ("api", "arrived", "body", "client_id", "header", "reply", "size")

    def __init__(self, api: Api, header: Header, body: Any, size: int, arrived: float) -> None:
        self.api = api
        self.header = header
        self.client_id: str | None = None
        self.body = body
        self.size = size
        self.arrived = arrived
        self.reply: Segments | NoReply | None = None

    def expects_no_reply(self) -> bool:
        """Whether this is a Produce request with acks=0."""
        if self.header.api_key != ApiKey.PRODUCE:
            return False
        if isinstance(self.body, bytes):
            try:
                self.set_parsed(parse_request(self.body, self.header))
            except MalformedRequest:
                return False
        return bool(self.body.acks == 0)

    def set_parsed(self, parsed: Request) -> None:
        """Replace the frame's bytes by the parsed request."""
        self.client_id, self.body = parsed.client_id, parsed.payload
