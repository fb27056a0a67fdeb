"""A broker whose groups answer what a test told them to."""

from dataclasses import dataclass
from typing import Any

from tests.support.broker.fake_groups import FakeGroups
from tests.support.broker.running import RunningBroker


@dataclass
class Fixture:
    broker: RunningBroker
    groups: FakeGroups

    async def call(self, api: int, version: int, **fields: Any) -> Any:
        return await self.broker.call(api, version, **fields)
