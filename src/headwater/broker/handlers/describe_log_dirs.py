"""DescribeLogDirs, versions 1-5.

Behaviour: the engine's one directory: a path where that is a local directory, a URL without
credentials otherwise. Each partition has the bytes that it holds, as
they were produced, and no lag. For all topics a broker names the partitions that clients are
sent to it for, so that a sum over all brokers counts each once; a partition that is named is
answered by any broker. What does not exist is left out, as Kafka does.

Notes by version: an error at the top from 3 on, the file system's total and usable bytes from 4
on (-1 where the store is not a local directory), cordoned directories, of which there are none,
from 5 on.
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

Wanted = list[tuple[Topic, list[int]]]
"""Topics with the partitions of each."""


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """The one directory."""
    if request.topics is None:
        wanted = await _own_share(services, await services.engine.topics.all())
    else:
        wanted = await _named(services, request.topics)
    sizes = await services.engine.sizes(
        [topic.streams[partition] for topic, partitions in wanted for partition in partitions]
    )
    directory = services.engine.directory
    path = directory.path
    total, usable = await _space(services, path) if path else (_UNKNOWN, _UNKNOWN)
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
                    for topic, partitions in wanted
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


async def _own_share(services: Services, topics: Sequence[Topic]) -> Wanted:
    leader, own = services.cluster.leader, services.cluster.node_id
    wanted: Wanted = []
    turn = Turn()
    for topic in topics:
        partitions = [p for p, stream in enumerate(topic.streams) if leader(stream) == own]
        if partitions:
            wanted.append((topic, partitions))
        if turn.spend(1 + len(topic.streams)):
            await yield_turn()
    return wanted


async def _named(services: Services, asked: Sequence[Any]) -> Wanted:
    """Each partition once, however often it is named."""
    partitions: dict[str, dict[int, None]] = {}
    for one in asked:
        partitions.setdefault(one.topic, {}).update(dict.fromkeys(one.partitions))
    wanted: Wanted = []
    async for name, numbers in in_turns(partitions.items()):
        topic = await services.topics.find_for_cluster(name)
        if topic is None:
            continue
        there = [p for p in numbers if has_partition(topic, p)]
        if there:
            wanted.append((topic, there))
    return wanted


async def _space(services: Services, directory: Path) -> tuple[int, int]:
    def look() -> tuple[int, int]:
        found = os.statvfs(directory)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(services.executor, look)
    except OSError:
        return _UNKNOWN, _UNKNOWN


API = Api(
    ApiKey.DESCRIBE_LOG_DIRS,
    "DescribeLogDirs",
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=Resource.CLUSTER,
)
