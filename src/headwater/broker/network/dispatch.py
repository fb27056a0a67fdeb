"""``Api``: what a handler module registers, and how a connection calls it.

Handlers have two forms. Most are ``Handle``: a connection calls one at a time, after every earlier
request is answered, and gets the reply or an awaitable of it. Produce is ``Admit``: it may be
called before earlier requests are answered. It returns None, or an awaitable that must end before
the next request is admitted, and calls ``done`` once with the reply.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.broker.authorizer import CLUSTER_NAME, Operation, Resource, require
from headwater.broker.network.replies import NoReply, Reply
from headwater.broker.services import RequestContext, Services
from headwater.wire.messages.api_versions import ADVERTISED, ApiKey

Handle = Callable[[Services, Any, RequestContext], Reply | Awaitable[Reply]]
Done = Callable[[Reply | NoReply], None]
Admit = Callable[[Services, Any, RequestContext, Done], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Api:
    """One API; exactly one of ``handle`` and ``admit`` is given.

    A client needs the right to do ``operation`` on ``resource``: the cluster, or the group that
    the request names. It is checked before the handler is called. With ``checked_by_handler`` the
    handler itself calls ``require`` for each resource that the request names. Rights on topics
    are checked by ``TopicAccess``.
    """

    key: ApiKey
    name: str
    handle: Handle | None = None
    admit: Admit | None = None
    operation: Operation | None = None
    resource: Resource | None = None
    checked_by_handler: bool = False

    def authorize(self, services: Services, request: Any, context: RequestContext) -> None:
        """Raises the authorization error that refuses the whole request."""
        if self.operation is None or self.checked_by_handler:
            return
        name = request.group_id if self.resource is Resource.GROUP else CLUSTER_NAME
        self.require(services, context, name)

    def require(self, services: Services, context: RequestContext, name: str) -> None:
        """Raises the resource's authorization error unless the client may use ``name``."""
        assert self.operation is not None
        assert self.resource is not None
        require(services.authorizer, context.session, self.operation, self.resource, name)


def api_table(apis: Iterable[Api]) -> Mapping[int, Api]:
    """The APIs by key. Raises ``LookupError`` if an advertised API has no handler."""
    table = {int(api.key): api for api in apis}
    missing = [key.name for key in ADVERTISED if key not in table]
    if missing:
        raise LookupError(f"no handler for {', '.join(missing)}")
    return table
