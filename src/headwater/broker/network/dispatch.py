"""What an API is to the connections: its key, and a function that answers it.

Handlers come in two shapes. Most are ``Handle``: they are called alone, after every earlier
request of the connection has been answered, and give the reply or an awaitable of it. Produce
is ``Admit``: it takes a request in before the earlier ones are answered, returns None or an
awaitable that holds back the requests behind it, and calls ``done`` once with the reply.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.broker.authorizer import CLUSTER_NAME, Operation, Resource, require
from headwater.broker.network.replies import NoReply, Reply
from headwater.broker.services import Call, Services
from headwater.wire.messages.api_versions import ADVERTISED, ApiKey

Handle = Callable[[Services, Any, Call], Reply | Awaitable[Reply]]
Done = Callable[[Reply | NoReply], None]
Admit = Callable[[Services, Any, Call, Done], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Api:
    """One API as a handler module registers it; exactly one of the two functions is given.

    ``operation`` on ``resource`` is what a client needs: on the cluster, or on the group that the
    request names. It is checked before the handler is called, unless it is ``checked_by_handler``:
    then the handler calls ``require`` for each of the resources that the request names. Topics
    are checked where they are found, by ``TopicAccess``.
    """

    key: ApiKey
    name: str
    handle: Handle | None = None
    admit: Admit | None = None
    operation: Operation | None = None
    resource: Resource | None = None
    checked_by_handler: bool = False

    def authorize(self, services: Services, request: Any, call: Call) -> None:
        """Raises the authorization error with which the request as a whole is answered."""
        if self.operation is None or self.checked_by_handler:
            return
        name = request.group_id if self.resource is Resource.GROUP else CLUSTER_NAME
        self.require(services, call, name)

    def require(self, services: Services, call: Call, name: str) -> None:
        """Raises the resource's authorization error unless the client may use that one."""
        assert self.operation is not None
        assert self.resource is not None
        require(services.authorizer, call.session, self.operation, self.resource, name)


def api_table(apis: Iterable[Api]) -> Mapping[int, Api]:
    """The handlers by API key; every advertised API has exactly one."""
    table = {int(api.key): api for api in apis}
    missing = [key.name for key in ADVERTISED if key not in table]
    if missing:
        raise LookupError(f"no handler for {', '.join(missing)}")
    return table
