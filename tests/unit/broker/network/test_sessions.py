"""A request is checked against the session when it is started, not when it arrives."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.broker import apis
from headwater.broker.network.client_session import ANONYMOUS, Principal
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import RunningBroker, produce_fields, request_frame

ALICE = Principal("User", "alice")
SIGN_IN, WHO_AM_I = ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_CLUSTER


def serve(monkeypatch: pytest.MonkeyPatch, key: ApiKey, handle: Callable[..., Any]) -> None:
    """Replace the handler of an API."""
    monkeypatch.setitem(apis.APIS, int(key), Api(key, key.name, handle=handle))


@pytest.fixture
def principals(monkeypatch: pytest.MonkeyPatch) -> list[Principal]:
    """The principals for which the handler of ``WHO_AM_I`` was called."""
    seen: list[Principal] = []

    def who_am_i(_services: Services, _request: Any, context: RequestContext) -> Values:
        seen.append(context.session.principal)
        return {}

    serve(monkeypatch, WHO_AM_I, who_am_i)
    return seen


async def test_a_request_behind_a_sign_in_runs_for_the_principal_that_signed_in(
    broker: RunningBroker, principals: list[Principal], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sign_in(_services: Services, _request: Any, context: RequestContext) -> Values:
        context.session.principal = ALICE
        return {"groups": []}

    serve(monkeypatch, SIGN_IN, sign_in)
    asked = request_frame(WHO_AM_I, 0, 1, include_cluster_authorized_operations=False)
    client = await broker.connect()
    client.writer.write(asked + request_frame(SIGN_IN, 0, 2) + asked)
    for _ in range(3):
        await client.receive_frame()
    assert principals == [ANONYMOUS, ALICE]
    await client.close()


async def test_a_session_belongs_to_one_connection(
    broker: RunningBroker, principals: list[Principal], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sign_in(_services: Services, _request: Any, context: RequestContext) -> Values:
        context.session.principal = ALICE
        return {"groups": []}

    serve(monkeypatch, SIGN_IN, sign_in)
    first = await broker.connect()
    await first.call(SIGN_IN, 0)
    await broker.call(WHO_AM_I, 0, include_cluster_authorized_operations=False)
    assert principals == [ANONYMOUS]
    await first.close()


@pytest.mark.parametrize("behind", [ApiKey.METADATA, ApiKey.PRODUCE])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"max_request_bytes": 30}, "1 to 30 are allowed"),
        ({"expires_at": 0.0}, "the session of User:ANONYMOUS has expired"),
    ],
)
async def test_a_request_is_checked_against_the_session_when_it_starts(
    broker: RunningBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    behind: ApiKey,
    change: dict[str, Any],
    reason: str,
) -> None:
    async def restrict(_services: Services, _request: Any, context: RequestContext) -> Values:
        for name, value in change.items():
            setattr(context.session, name, value)
        return {"groups": []}

    serve(monkeypatch, SIGN_IN, restrict)
    if behind == ApiKey.PRODUCE:
        refused = request_frame(behind, 9, 2, **produce_fields("topic", b"not read"))
    else:
        refused = request_frame(behind, 1, 2, topics=[{"name": "a" * 30}])
    client = await broker.connect()
    client.writer.write(request_frame(SIGN_IN, 0, 1) + refused)
    assert (await client.receive(SIGN_IN, 0))[0] == 1, "what came first is answered"
    assert await client.is_closed()
    await client.close()
    (record,) = (each for each in caplog.records if each.message == "Closing a connection")
    assert reason in vars(record)["reason"]
    assert broker.services.engine.topics.get("a" * 30) is None


async def test_a_malformed_request_does_not_take_the_reply_before_it(broker: RunningBroker) -> None:
    client = await broker.connect()
    malformed = request_frame(ApiKey.METADATA, 1, 2, topics=[{"name": "topic"}])[:-1]
    malformed = (len(malformed) - 4).to_bytes(4, "big") + malformed[4:]
    client.writer.write(request_frame(SIGN_IN, 0, 1) + malformed)
    assert (await client.receive(SIGN_IN, 0))[0] == 1
    assert await client.is_closed()
    await client.close()
