"""The features that ApiVersions lists: names with ranges of levels, as in Kafka."""

from collections.abc import Mapping
from typing import Final

from headwater.feature_levels import SUPPORTED_LEVELS, Levels

LEVEL: Final = "headwater.version"
"""The cluster's feature level: which formats its brokers may write."""

FIXED: Final[Mapping[str, int]] = {"group.version": 1}
"""Kafka's own features that are served, each at its one level."""

SUPPORTED: Final[Mapping[str, Levels]] = {
    **{name: Levels(0, level) for name, level in FIXED.items()},
    LEVEL: SUPPORTED_LEVELS,
}
