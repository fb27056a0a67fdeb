"""A topic's rules for the batches that it accepts, read once after each change of its configs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.engine import Topic
from headwater.topic_config.topic import is_compacted, number, text, uses_append_time

CODECS: Final = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Kafka's numbers in a batch's attributes; ``producer`` is not in it and means no recompression."""


@dataclass(frozen=True, slots=True)
class TopicRules:
    """A topic's rules for the batches that it accepts; ``codec`` is None for ``producer``."""

    max_bytes: int
    codec: int | None
    append_time: bool
    compacted: bool
    before_ms: int
    after_ms: int


class TopicRulesCache:
    """Rules by topic. They are read again if the topic or the cluster's defaults changed, which
    makes them other objects.
    """

    _SIZE: Final = 20_000

    def __init__(self) -> None:
        self._rules: dict[str, tuple[Topic, Mapping[str, str], TopicRules]] = {}

    def rules(self, topic: Topic, defaults: Mapping[str, str]) -> TopicRules:
        """``defaults`` are the cluster's configurations, for topics that do not set them."""
        known = self._rules.get(topic.name)
        if known is not None and known[0] is topic and known[1] is defaults:
            return known[2]
        if len(self._rules) >= self._SIZE:
            self._rules.clear()
        rules = rules_of({**defaults, **topic.configs})
        self._rules[topic.name] = topic, defaults, rules
        return rules


def rules_of(configs: Mapping[str, str]) -> TopicRules:
    """The rules that these configurations and Kafka's defaults mean."""
    return TopicRules(
        max_bytes=number(configs, "max.message.bytes"),
        codec=CODECS.get(text(configs, "compression.type")),
        append_time=uses_append_time(configs),
        compacted=is_compacted(configs),
        before_ms=number(configs, "message.timestamp.before.max.ms"),
        after_ms=number(configs, "message.timestamp.after.max.ms"),
    )
