"""From quotas to a connection: what a request costs its client, and how long that makes it wait."""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from time import perf_counter
from typing import Any, Generic, TypeVar

from headwater.broker.network.replies import EncodedReply, NoReply, Reply
from headwater.broker.quotas.enforcement import ClientQuotas
from headwater.wire.messages.api_versions import ApiKey

T = TypeVar("T")


def throttle_ms(
    quotas: ClientQuotas, api_key: int, client_id: str | None, size: int, reply: Reply | NoReply
) -> int:
    """Count a request of ``size`` bytes that is about to be answered; how long its client waits."""
    wait = 0
    if isinstance(reply, EncodedReply):
        wait = reply.throttle_ms
    elif isinstance(reply, dict):
        wait = reply.get("throttle_time", 0)
    if api_key == ApiKey.PRODUCE:
        wait = max(wait, quotas.produced(client_id, size))
    if quotas.timed:
        wait = max(wait, quotas.overspent(client_id))
    return wait


class TimedAwaitable(Generic[T]):
    """An awaitable that tells ``spent`` how long the loop worked for it, waiting not counted.

    The loop's own clock will not do: it stands still while a callback runs.
    """

    def __init__(self, outcome: Awaitable[T], spent: Callable[[float], None]) -> None:
        self._outcome = outcome
        self._spent = spent

    def __await__(self) -> Generator[Any, Any, T]:
        steps: Any = self._outcome.__await__()
        step: Callable[[], Any] = partial(next, steps)
        while True:
            began = perf_counter()
            try:
                waiting = step()
            except StopIteration as end:
                outcome: T = end.value
                return outcome
            finally:
                self._spent(perf_counter() - began)
            try:
                yield waiting
            except BaseException as error:  # noqa: BLE001 - a cancellation goes where the work is
                step = partial(steps.throw, error)
            else:
                step = partial(next, steps)
