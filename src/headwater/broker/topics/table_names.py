"""Keeps two topics from having the same table."""

from collections.abc import Mapping

from headwater.broker.services import Services
from headwater.errors import InvalidConfig
from headwater.tables.names import TableName, dotted, table_name
from headwater.topic_config.topic import text
from headwater.work_budget import in_turns

CONFIG = "headwater.table.name"
_TOPICS_PER_TURN = 500


class TableNames:
    """The table names of all topics, read at most once for each request."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._owners: dict[TableName, str] | None = None

    async def check(
        self, topic: str, configs: Mapping[str, str], before: Mapping[str, str] | None = None
    ) -> None:
        """Raises ``InvalidConfig`` if the table of these configurations belongs to another topic.

        ``before`` are the topic's present configurations, or None for a new topic. A name that
        does not change is not checked again. Without the configuration the template names the
        table.
        """
        wanted, name = text(configs, CONFIG), self._name(topic, configs)
        unchanged = not wanted if before is None else self._name(topic, before) == name
        if unchanged:
            return
        if self._owners is None:
            self._owners = await self._read()
        owner = self._owners.setdefault(name, topic)
        if owner != topic:
            raise InvalidConfig(
                f"Invalid value {wanted or '(unset)'} for configuration {CONFIG}: table "
                f"{dotted(name)} belongs to topic {owner}"
            )

    async def _read(self) -> dict[TableName, str]:
        owners: dict[TableName, str] = {}
        topics = await self._services.engine.topics.all()
        async for topic in in_turns(topics, elements=_TOPICS_PER_TURN):
            owners.setdefault(self._name(topic.name, topic.configs), topic.name)
        return owners

    def _name(self, topic: str, configs: Mapping[str, str]) -> TableName:
        return table_name(self._services.settings.table_names, topic, configs)
