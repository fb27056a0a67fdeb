"""What an API is to the connections: its key, and a function that answers it.

Handlers come in two shapes. Most are ``Handle``: they are called alone, after every earlier
request of the connection has been answered, and give the reply or an awaitable of it. Produce
is ``Admit``: it takes a request in before the earlier ones are answered, returns None or an
awaitable that holds back the requests behind it, and calls ``done`` once with the reply.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.broker.replies import NoReply, Reply
from headwater.broker.services import Call, Services
from headwater.wire.api_versions import ADVERTISED, ApiKey

Handle = Callable[[Services, Any, Call], Reply | Awaitable[Reply]]
Done = Callable[[Reply | NoReply], None]
Admit = Callable[[Services, Any, Call, Done], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Api:
    """One API as a handler module registers it; exactly one of the two functions is given."""

    key: ApiKey
    name: str
    handle: Handle | None = None
    admit: Admit | None = None


def api_table(apis: Iterable[Api]) -> Mapping[int, Api]:
    """The handlers by API key; every advertised API has exactly one."""
    table = {int(api.key): api for api in apis}
    missing = [key.name for key in ADVERTISED if key not in table]
    if missing:
        raise LookupError(f"no handler for {', '.join(missing)}")
    return table
