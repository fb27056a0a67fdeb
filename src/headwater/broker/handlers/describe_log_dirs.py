"""DescribeLogDirs, versions 1-5.

Behaviour: the engine's one directory: a path if it is local, or else a URL without credentials.
Each partition has the bytes of its batches as they were produced, and no lag. A request for all
topics gets the partitions that this broker owns, so that the sum over all brokers counts each
partition once; a named partition is answered by any broker. Unknown topics and partitions are left
out, as in Kafka.

Notes by version: an error at the top level from 3; the total and usable bytes of the file system
from 4 (-1 if the directory is not local); cordoned directories from 5; none is ever cordoned.

Left out: nothing.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import LazyRows, Values
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.access import has_partition
from headwater.engine import StreamId, Topic
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import Turn, in_turns, yield_turn

_UNKNOWN: Final = -1

TopicPartitions = list[tuple[Topic, list[int]]]
"""Topics, each with some of its partitions."""


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """The engine's one directory."""
    if request.topics is None:
        described = await _owned_here(services, await services.engine.topics.all())
    else:
        described = await _named(services, request.topics)
    sizes = await services.engine.sizes(
        [topic.streams[partition] for topic, partitions in described for partition in partitions]
    )
    directory = services.engine.directory
    path = directory.path
    total, usable = await _disk_space(services, path) if path else (_UNKNOWN, _UNKNOWN)
    return {
        "results": [
            {
                "log_dir": directory.name,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": LazyRows(
                            len(partitions), partial(_rows, topic, partitions, sizes)
                        ),
                    }
                    for topic, partitions in described
                ],
                "total_bytes": total,
                "usable_bytes": usable,
            }
        ]
    }


def _rows(
    topic: Topic, partitions: Sequence[int], sizes: Mapping[StreamId, int]
) -> Iterator[Values]:
    for partition in partitions:
        size = sizes.get(topic.streams[partition], 0)
        yield {"partition_index": partition, "partition_size": size}


async def _owned_here(services: Services, topics: Sequence[Topic]) -> TopicPartitions:
    leader, own = services.cluster.leader, services.cluster.node_id
    owned: TopicPartitions = []
    turn = Turn()
    for topic in topics:
        partitions = [p for p, stream in enumerate(topic.streams) if leader(stream) == own]
        if partitions:
            owned.append((topic, partitions))
        if turn.spend(1 + len(topic.streams)):
            await yield_turn()
    return owned


async def _named(services: Services, asked: Sequence[Any]) -> TopicPartitions:
    """The named partitions that exist, each once."""
    partitions: dict[str, dict[int, None]] = {}
    for one in asked:
        partitions.setdefault(one.topic, {}).update(dict.fromkeys(one.partitions))
    found: TopicPartitions = []
    async for name, numbers in in_turns(partitions.items()):
        topic = await services.topics.find_for_cluster(name)
        if topic is None:
            continue
        existing = [p for p in numbers if has_partition(topic, p)]
        if existing:
            found.append((topic, existing))
    return found


async def _disk_space(services: Services, directory: Path) -> tuple[int, int]:
    def total_and_usable() -> tuple[int, int]:
        found = os.statvfs(directory)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(services.executor, total_and_usable)
    except OSError:
        return _UNKNOWN, _UNKNOWN


API = Api(
    ApiKey.DESCRIBE_LOG_DIRS,
    "DescribeLogDirs",
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=Resource.CLUSTER,
)
