"""Charges requests to the quotas of their clients, and computes their throttle times."""

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
    """Charge a request of ``size`` bytes that is about to be answered; the throttle time in ms."""
    wait = 0
    if isinstance(reply, EncodedReply):
        wait = reply.throttle_ms
    elif isinstance(reply, dict):
        wait = reply.get("throttle_time", 0)
    if api_key == ApiKey.PRODUCE:
        wait = max(wait, quotas.charge_produce(client_id, size))
    if quotas.timed:
        wait = max(wait, quotas.time_throttle_ms(client_id))
    return wait


class TimedAwaitable(Generic[T]):
    """An awaitable that calls ``spent`` with the seconds of each of its turns of the loop.

    The loop's own clock cannot measure that, because it does not advance during a callback.
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
            except BaseException as error:  # noqa: BLE001 - passes cancellation to the awaitable
                step = partial(steps.throw, error)
            else:
                step = partial(next, steps)
