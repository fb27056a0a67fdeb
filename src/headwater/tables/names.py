"""Names of topics' tables.

>>> table_name("headwater.<topic>", "orders.eu", {})
('headwater', 'orders_eu')
>>> table_name("headwater.<topic>", "orders", {"headwater.table.name": "lake.raw.orders"})
('lake', 'raw', 'orders')
>>> retired_name(("headwater", "orders"), "5f3a90c2-0001")
('headwater', 'orders_deleted_5f3a90c2')
"""

from collections.abc import Mapping
from typing import Final

from headwater.errors import ConfigurationError
from headwater.topic_config import topic as topic_configs
from headwater.topic_config.table import check_table_name

TOPIC: Final = "<topic>"

TableName = tuple[str, ...]
"""Namespaces and the table's name, as in pyiceberg's identifiers."""


def check_template(template: str) -> None:
    """Raises ``ConfigurationError`` unless ``template`` gives every topic its own table."""
    reason = "" if TOPIC in template else f"it has no {TOPIC}"
    try:
        check_table_name(template.replace(TOPIC, "topic"))
    except ValueError as error:
        reason = str(error)
    if reason:
        raise ConfigurationError(
            f"tables.name is {template!r}; expected namespace.table with {TOPIC} in it, "
            f"such as headwater.{TOPIC}: {reason}"
        )


def table_name(template: str, topic: str, configs: Mapping[str, str]) -> TableName:
    """The name of a topic's table, by its configuration or the template.

    A dot in a topic's name becomes an underscore, because it would separate namespaces. If two
    topics get the same name, the creation of the second table is refused.
    """
    own = topic_configs.text(configs, "headwater.table.name")
    return tuple((own or template.replace(TOPIC, topic.replace(".", "_"))).split("."))


def retired_name(name: TableName, topic_id: str) -> TableName:
    """The new name of a table whose topic was deleted and created again."""
    return (*name[:-1], f"{name[-1]}_deleted_{topic_id[:8]}")


def dotted(name: TableName) -> str:
    """A table's name with dots."""
    return ".".join(name)
