"""The quotas in the metadata store, and this broker's copy, which follows them by a watch."""

from collections.abc import Callable, Mapping

import msgspec

from headwater.broker.quotas.entities import Entity, Quotas, entity_of, entity_text
from headwater.meta import keys
from headwater.meta.mirror import Mirror
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.transactions import transact
from headwater.meta.values import Value, decode, encode


class QuotaRecord(Value):
    """One entity's limits."""

    limits: dict[str, float] = msgspec.field(default_factory=dict)


class QuotaStore:
    """Call ``load``, then keep ``run`` in a task. ``all`` may lag behind the store."""

    def __init__(
        self, meta: MetadataStore, changed: Callable[[Mapping[Entity, Quotas]], None]
    ) -> None:
        self._meta = meta
        self._notify = changed
        self._mirror = Mirror(meta, keys.QUOTAS, self._changed)
        self._decoded: dict[str, tuple[bytes, Entity, Quotas]] = {}
        self.all: Mapping[Entity, Quotas] = {}
        self.load = self._mirror.load
        self.run = self._mirror.run
        self.refresh = self._mirror.refresh

    def _changed(self, values: Mapping[str, bytes]) -> None:
        known = self._decoded
        self._decoded = {
            name: old
            if (old := known.get(name)) is not None and old[0] == value
            else (value, entity_of(name), decode(QuotaRecord, value).limits)
            for name, value in values.items()
        }
        self.all = {entity: limits for _, entity, limits in self._decoded.values()}
        self._notify(self.all)

    async def change(
        self, entity: Entity, limits: Mapping[str, float | None], *, refresh: bool = True
    ) -> None:
        """Set limits; None removes a limit. All brokers follow the change.

        This broker's copy has the change when this returns; with ``refresh=False``, only after the
        next call of ``refresh``. Raises a ``KafkaError`` if the store does not answer.
        """
        key = keys.quota(entity_text(entity))

        def decide(values: Values) -> tuple[Writes, None]:
            writes, there = Writes(), values[key]
            record = QuotaRecord() if there is None else decode(QuotaRecord, there.value)
            for name, limit in limits.items():
                if limit is None:
                    record.limits.pop(name, None)
                else:
                    record.limits[name] = limit
            if record.limits:
                writes.put(key, encode(record))
            elif there is not None:
                writes.delete(key)
            return writes, None

        await transact(self._meta, [key], decide)
        if refresh:
            await self.refresh()
