from collections.abc import AsyncIterator

import pytest

from tests.support.broker.fake_groups import FakeGroups
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.broker.scripted import Fixture


@pytest.fixture
async def broker() -> AsyncIterator[RunningBroker]:
    async with running_broker() as running:
        yield running


@pytest.fixture
async def given() -> AsyncIterator[Fixture]:
    groups = FakeGroups()
    async with running_broker(groups=groups) as broker:
        yield Fixture(broker, groups)
