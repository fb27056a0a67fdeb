"""Work that blocks the event loop is measured and logged."""

import asyncio
import time
from typing import Any

import pytest

from headwater.broker import apis, loop_delay
from headwater.broker.loop_delay import KEPT_SAMPLES, LoopDelay
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Reply
from headwater.broker.services import RequestContext, Services
from headwater.telemetry.metrics import Metrics
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import SLOW_TURN_SECONDS
from tests.support.broker.running import RunningBroker

HELD = SLOW_TURN_SECONDS + 0.05


def hold_at_once(services: Services, request: Any, context: RequestContext) -> Reply:
    time.sleep(HELD)
    return {"groups": []}


async def hold_after_a_wait(services: Services, request: Any, context: RequestContext) -> Reply:
    await asyncio.sleep(0.01)
    time.sleep(HELD)  # noqa: ASYNC251 - the fault that is to be found
    return {"groups": []}


@pytest.mark.parametrize("handle", [hold_at_once, hold_after_a_wait])
async def test_a_request_that_blocks_the_loop_is_logged(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: Any, handle: Any
) -> None:
    key = ApiKey.LIST_GROUPS
    monkeypatch.setitem(apis.APIS, int(key), Api(key, "ListGroups", handle=handle))
    await broker.call(ApiKey.LIST_GROUPS, 0)
    await asyncio.sleep(2 * loop_delay.SAMPLE_SECONDS)
    metrics = broker.services.metrics
    assert dict(metrics.slow_turns)["ListGroups"].value == 1
    (warning,) = [each for each in caplog.records if "blocked" in each.message]
    assert warning.api == "ListGroups"
    assert warning.peer.startswith("127.0.0.1:")


async def test_the_gauge_shows_the_longest_delay_of_the_last_samples() -> None:
    metrics = Metrics()
    delay = LoopDelay(metrics)
    delay.record(0.2)
    delay.record(0.1)
    assert metrics.loop_delay_seconds.value == 0.2
    for _ in range(KEPT_SAMPLES):
        delay.record(0.0)
    assert metrics.loop_delay_seconds.value == 0.2
    for _ in range(KEPT_SAMPLES):
        delay.record(0.0)
    assert metrics.loop_delay_seconds.value == 0


async def test_the_timer_measures_work_outside_requests() -> None:
    metrics = Metrics()
    delay = LoopDelay(metrics)
    delay.start()
    await asyncio.sleep(0)
    time.sleep(loop_delay.SAMPLE_SECONDS + HELD)  # noqa: ASYNC251 - the fault that is to be found
    await asyncio.sleep(0.01)
    delay.stop()
    assert metrics.loop_delay_seconds.value >= HELD
    assert {api for api, _ in metrics.slow_turns} == {"other work"}


async def test_a_delay_that_a_request_explains_is_counted_once(caplog: Any) -> None:
    metrics = Metrics()
    delay = LoopDelay(metrics)
    for _ in range(3):
        delay.report_slow_turn("Fetch", "peer", 0.4)
        delay.record(0.4)
    assert {api: counter.value for api, counter in metrics.slow_turns} == {"Fetch": 3}
    assert len(caplog.records) == 1
