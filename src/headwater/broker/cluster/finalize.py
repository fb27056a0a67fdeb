"""Raises the cluster's feature level, if every broker supports it.

Invariant: when a level is finalized, every registered broker supports it, and no broker without
support can register afterwards. The transaction compares the counter that every registration
increments, and every registration compares the cluster's record.
"""

from dataclasses import dataclass

from headwater.broker.cluster.registration import Registration
from headwater.cluster_record import ClusterRecord
from headwater.errors import ConfigurationError
from headwater.feature_levels import SUPPORTED_LEVELS, Levels
from headwater.meta import keys
from headwater.meta.store import MetadataStore, Values, Writes, prefix_end
from headwater.meta.transactions import transact
from headwater.meta.values import NextNumber, decode, encode

_TRIES = 10


@dataclass(frozen=True, slots=True)
class Finalized:
    """The cluster's level before and after."""

    before: int
    after: int


async def finalize(
    meta: MetadataStore, level: int | None = None, *, dry_run: bool = False
) -> Finalized:
    """Raise the cluster to ``level``, or to the highest level that all live brokers support.

    Raises ``ConfigurationError`` if a broker does not support it, or if it is lower than now.
    """
    for _ in range(_TRIES):
        epochs = await meta.get(keys.NEXT_BROKER_EPOCH)
        found = await meta.scan(keys.BROKERS, prefix_end(keys.BROKERS))
        brokers = {
            int(entry.key.removeprefix(keys.BROKERS)): decode(Registration, entry.value)
            for entry in found.entries
        }
        seen = 0 if epochs is None else decode(NextNumber, epochs.value).next

        def decide(
            values: Values, brokers: dict[int, Registration] = brokers, seen: int = seen
        ) -> tuple[Writes, Finalized | None]:
            writes = Writes()
            counted, stored = values[keys.NEXT_BROKER_EPOCH], values[keys.CLUSTER]
            if (0 if counted is None else decode(NextNumber, counted.value).next) != seen:
                return writes, None  # a broker has registered since the scan
            if stored is None:
                raise ConfigurationError(
                    "there is no cluster in this metadata store: start a broker first"
                )
            cluster = decode(ClusterRecord, stored.value)
            before, wanted = cluster.level, choose_level(cluster.level, level, brokers)
            if wanted != before and not dry_run:
                cluster.level = wanted
                writes.put(keys.CLUSTER, encode(cluster))
            return writes, Finalized(before, wanted)

        done = await transact(meta, [keys.CLUSTER, keys.NEXT_BROKER_EPOCH], decide)
        if done is not None:
            return done
    raise ConfigurationError(
        f"brokers registered during each of {_TRIES} attempts: try again when none is starting"
    )


def choose_level(current: int, wanted: int | None, brokers: dict[int, Registration]) -> int:
    """The level to finalize.

    Raises ``ConfigurationError`` if a broker does not support it, or if it is lower than now.
    """
    supported = {broker: Levels(*each.levels) for broker, each in brokers.items()}
    highest = min((each.highest for each in supported.values()), default=SUPPORTED_LEVELS.highest)
    level = max(current, min(highest, SUPPORTED_LEVELS.highest)) if wanted is None else wanted
    if level < current:
        raise ConfigurationError(
            f"the cluster is at feature level {current} and cannot go back to {level}"
        )
    if level > SUPPORTED_LEVELS.highest:
        raise ConfigurationError(
            f"this release supports the feature levels {SUPPORTED_LEVELS}, not {level}: "
            "install a newer release"
        )
    for broker, each in supported.items():
        if not each.lowest <= level <= each.highest:
            raise ConfigurationError(
                f"broker {broker} supports the feature levels {each}, not {level}: "
                "upgrade it first, then finalize"
            )
    return level
