from collections.abc import AsyncIterator

import pytest

from tests.broker.running import RunningBroker, running_broker


@pytest.fixture
async def broker() -> AsyncIterator[RunningBroker]:
    async with running_broker() as running:
        yield running
