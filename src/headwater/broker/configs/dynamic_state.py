"""What administrators change at run time: configurations of brokers and groups, and quotas.

The metadata store holds it. Each broker has a copy in memory, and follows changes.
"""

import asyncio
from collections.abc import Callable

from headwater.broker.configs.store import BrokerConfigStore
from headwater.broker.quotas.enforcement import ClientQuotas
from headwater.broker.quotas.store import QuotaStore
from headwater.groups.configs import GroupConfigs
from headwater.groups.settings import GroupSettings
from headwater.meta.store import MetadataStore


class DynamicState:
    """Call ``load`` before clients are served, then keep ``run`` in a task.

    ``now`` is the monotonic clock in seconds.
    """

    def __init__(
        self,
        meta: MetadataStore,
        *,
        broker_id: int,
        group_settings: GroupSettings,
        now: Callable[[], float],
    ) -> None:
        self.brokers = BrokerConfigStore(meta, broker_id)
        self.groups = GroupConfigs(meta, group_settings)
        self.quotas = ClientQuotas(now)
        self.stored_quotas = QuotaStore(meta, self.quotas.change)

    async def load(self) -> None:
        """Read everything. Raises ``StoreError``."""
        await asyncio.gather(self.brokers.load(), self.groups.load(), self.stored_quotas.load())

    async def run(self) -> None:
        """Follow changes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.brokers.run())
            tasks.create_task(self.groups.run())
            tasks.create_task(self.stored_quotas.run())
