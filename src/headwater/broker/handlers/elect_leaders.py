"""ElectLeaders, versions 0-2.

Behaviour: there are no leaders to elect. A named partition gets 84, as in Kafka if the preferred
leader leads already. A request for all partitions gets an empty reply.

Codes: UNKNOWN_TOPIC_OR_PARTITION (3); INVALID_REQUEST (42): unknown type of election;
ELECTION_NOT_NEEDED (84).

Notes by version: types of election, and an error at the top level, from 1.

Left out: the request's time-out.
"""

from functools import partial
from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import LazyRows, Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.access import has_partition
from headwater.engine import Topic
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns

_KINDS: Final = (0, 1)


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each partition."""
    kind = optional_field(request, "election_type", default=0)
    unknown_kind = kind not in _KINDS
    results = []
    async for asked in in_turns(request.topic_partitions or ()):
        if unknown_kind:
            verdict = partial(_unknown_kind, kind)
        else:
            verdict = partial(
                _verdict, asked.topic, await services.topics.find_for_cluster(asked.topic)
            )
        rows = LazyRows(len(asked.partitions), partial(map, verdict, asked.partitions))
        results.append({"topic": asked.topic, "partition_result": rows})
    return {
        "error_code": Code.INVALID_REQUEST if unknown_kind else Code.NONE,
        "replica_election_results": results,
    }


def _unknown_kind(kind: int, partition: int) -> Values:
    return _row(partition, Code.INVALID_REQUEST, f"Unknown election type {kind}")


def _verdict(topic: str, known: Topic | None, partition: int) -> Values:
    if known is None:
        return _row(partition, Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    if not has_partition(known, partition):
        message = f"No such partition as {topic}-{partition}"
        return _row(partition, Code.UNKNOWN_TOPIC_OR_PARTITION, message)
    message = "Leader election not needed for topic partition."
    return _row(partition, Code.ELECTION_NOT_NEEDED, message)


def _row(partition: int, code: int, message: str) -> Values:
    return {"partition_id": partition, "error_code": code, "error_message": message}


API = Api(
    ApiKey.ELECT_LEADERS,
    "ElectLeaders",
    handle=handle,
    operation=Operation.ALTER,
    resource=Resource.CLUSTER,
)
