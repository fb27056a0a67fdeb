"""CreatePartitions, versions 0-3.

Behaviour: raises the number of a topic's partitions. ``validate_only`` checks and changes nothing.

Codes: UNKNOWN_TOPIC_OR_PARTITION (3); INVALID_PARTITIONS (37): a number that is not higher than the
present one; INVALID_REPLICA_ASSIGNMENT (39): an illegal assignment; INVALID_REQUEST (42): a topic
named twice; POLICY_VIOLATION (44): more partitions than one request may create;
THROTTLING_QUOTA_EXCEEDED (89): over the client's quota.

Notes by version: 89 from 3 on; a client with an older version is served and then throttled.

Left out: the request's time-out.
"""

from collections import Counter
from typing import Any, Final

from headwater.broker.authorizer import Operation
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.replica_assignment import check_brokers
from headwater.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
)
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import MAX_PARTITIONS_PER_REQUEST, in_turns

_STRICT: Final = 3
"""From this version on a client over its quota is refused (89); before, it is throttled."""


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each topic, in order."""
    quota = services.dynamic.quotas.mutations(context.client_id, strict=context.version >= _STRICT)
    times = Counter(topic.name for topic in request.topics)
    budget = MAX_PARTITIONS_PER_REQUEST
    by_name = {topic.name: topic for topic in request.topics}
    results: list[Values] = []
    async for name, asked in in_turns(by_name.items()):
        result: Values = {"name": name}
        try:
            if times[name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            added = await _check(services, context, asked)
            budget -= added
            if budget < 0:
                raise _too_many(added)
            quota.take(added)
            if not request.validate_only:
                await services.engine.topics.add_partitions(name, asked.count)
        except KafkaError as error:
            result |= {"error_code": error.code, "error_message": str(error)}
        results.append(result)
    return {"results": results, "throttle_time": quota.throttle_ms}


def _too_many(added: int) -> PolicyViolation:
    return PolicyViolation(
        f"Unable to add {added} more partitions in one request: "
        f"at most {MAX_PARTITIONS_PER_REQUEST} are allowed."
    )


async def _check(services: Services, context: RequestContext, asked: Any) -> int:
    """The number of partitions to add. Raises the error of an illegal request."""
    topic = await services.topics.find(context.session, asked.name, Operation.ALTER)
    present = len(topic.streams)
    if asked.count == present:
        raise InvalidPartitions(f"Topic already has {present} partition(s).")
    if asked.count < present:
        raise InvalidPartitions(
            f"The topic {asked.name} currently has {present} partition(s); {asked.count} would "
            "not be an increase."
        )
    added: int = asked.count - present
    if asked.assignments is None:
        return added
    if added > MAX_PARTITIONS_PER_REQUEST:
        raise _too_many(added)
    if len(asked.assignments) != added:
        raise InvalidReplicaAssignment(
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(asked.assignments)} assignment(s) were specified."
        )
    factor: int | None = None
    for assignment in asked.assignments:
        factor = check_brokers(services.cluster, assignment.broker_ids, factor)
    return added


API = Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", handle=handle)
