"""A request that is not answered yet."""

from typing import Any

from headwater.broker.dispatch import Api
from headwater.broker.replies import NoReply
from headwater.broker.services import Call
from headwater.wire.api_versions import ApiKey
from headwater.wire.encoder import Segments
from headwater.wire.requests import Header


class PendingRequest:
    """A request from its arrival until its reply has been handed to the socket.

    ``body`` is None once nothing more is to be read from it, and the frame's bytes until the
    request is parsed.
    """

    __slots__ = ("api", "arrived", "body", "call", "header", "reply", "size")

    def __init__(
        self, api: Api, header: Header, call: Call, body: Any, size: int, arrived: float
    ) -> None:
        self.api = api
        self.header = header
        self.call = call
        self.body = body
        self.size = size
        self.arrived = arrived
        self.reply: Segments | NoReply | None = None

    def is_silent(self) -> bool:
        """Its client waits for no answer, and may go once it has sent it."""
        return self.header.api_key == ApiKey.PRODUCE and self.body.acks == 0
