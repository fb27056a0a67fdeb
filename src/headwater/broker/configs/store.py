"""The dynamic configurations of brokers in the metadata store, and this broker's copy."""

from collections.abc import Mapping

from headwater.broker.configs.entries import BrokerLayers
from headwater.engine import ConfigChange
from headwater.meta import keys
from headwater.meta.mirror import Mirror
from headwater.meta.store import MetadataStore
from headwater.topic_config.stored import change_configs, stored_configs
from headwater.topic_config.topic import topic_defaults


class BrokerConfigStore:
    """Call ``load``, then keep ``run`` in a task. The copy may lag behind the store."""

    def __init__(self, meta: MetadataStore, broker_id: int) -> None:
        self._meta = meta
        self._broker_id = broker_id
        self._mirror = Mirror(meta, keys.BROKER_CONFIGS, self._changed)
        self.layers = BrokerLayers({}, {})
        self.topic_defaults: Mapping[str, str] = {}
        """The defaults of topics, by topic configuration; another object after each change."""
        self.load = self._mirror.load
        self.run = self._mirror.run

    async def change(self, change: ConfigChange, *, whole_cluster: bool) -> None:
        """Change what is set on this broker or on all. Raises what ``change`` raises."""
        key = keys.broker_configs(None if whole_cluster else self._broker_id)
        await change_configs(self._meta, key, change)
        await self._mirror.refresh()

    def _changed(self, values: Mapping[str, bytes]) -> None:
        by_key = {keys.BROKER_CONFIGS + name: value for name, value in values.items()}
        cluster = stored_configs(by_key.get(keys.broker_configs(None)))
        own = stored_configs(by_key.get(keys.broker_configs(self._broker_id)))
        self.layers = BrokerLayers(own, cluster)
        self.topic_defaults = topic_defaults({**cluster, **own})
