"""Which table is a topic's.

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
"""Namespaces, then the table, as pyiceberg's identifiers are."""


def check_template(template: str) -> None:
    """Raises ``ConfigurationError`` unless ``template`` gives every topic a table of its own."""
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
    """A topic's table, by its own configuration or else by the template.

    A dot in a topic's name becomes an underscore, since it would be a namespace in SQL. Where
    two topics come to the same name the second one's table is refused when it is made.
    """
    own = topic_configs.text(configs, "headwater.table.name")
    return tuple((own or template.replace(TOPIC, topic.replace(".", "_"))).split("."))


def retired_name(name: TableName, topic_id: str) -> TableName:
    """What a table is renamed to when its topic was created again under the same name."""
    return (*name[:-1], f"{name[-1]}_deleted_{topic_id[:8]}")


def dotted(name: TableName) -> str:
    """A table's name as people write it."""
    return ".".join(name)
