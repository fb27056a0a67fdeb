"""DeleteTopics, versions 1-6.

Behaviour: each topic is deleted independently. Produce requests in flight to a deleted topic
get 3 or 100.

Codes: UNKNOWN_TOPIC_OR_PARTITION (3); INVALID_REQUEST (42): a topic that is named twice, by name
and id, or not at all; THROTTLING_QUOTA_EXCEEDED (89): over the client's quota; UNKNOWN_TOPIC_ID
(100).

Notes by version: topics by id from 6; messages beside codes from 5. 89 from 5 on; a client with an
older version is served and then throttled.

Left out: the request's time-out.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from headwater.broker.authorizer import CLUSTER_NAME, Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.quotas.enforcement import MutationQuota
from headwater.broker.services import RequestContext, Services
from headwater.engine import Topic
from headwater.errors import InvalidRequest, KafkaError
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns

_FIRST_VERSION_WITH_IDS: Final = 6
_STRICT: Final = 5
"""From this version on a client over its quota is refused (89); before, it is throttled."""

TopicRef = tuple[str | None, UUID | None]
"""A name or an id; a legal request has exactly one of them."""


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each topic, in order."""
    if context.version >= _FIRST_VERSION_WITH_IDS:
        asked: Iterable[TopicRef] = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        asked = [(name, None) for name in request.topic_names]
    quota = services.dynamic.quotas.mutations(context.client_id, strict=context.version >= _STRICT)
    times = Counter(asked)
    return {
        "responses": [
            await _delete(services, context, ref, count, quota)
            async for ref, count in in_turns(times.items())
        ],
        "throttle_time": quota.throttle_ms,
    }


async def _delete(
    services: Services, context: RequestContext, ref: TopicRef, times: int, quota: MutationQuota
) -> Values:
    name, topic_id = ref
    try:
        _check(name, topic_id, times)
        topic = await _find(services, context, ref)
        name = topic.name
        _check_may_delete(services, context, name)
        quota.take(len(topic.streams))
        deleted = await services.engine.topics.delete(name)
    except KafkaError as error:
        return {
            "name": name,
            "topic_id": topic_id,
            "error_code": error.code,
            "error_message": str(error),
        }
    return {"name": deleted.name, "topic_id": deleted.id}


async def _find(services: Services, context: RequestContext, ref: TopicRef) -> Topic:
    """A client that deletes a topic by its id must have the right to know its name."""
    name, topic_id = ref
    if topic_id is not None:
        return await services.topics.find(context.session, topic_id, Operation.DESCRIBE)
    assert name is not None
    _check_may_delete(services, context, name)
    return await services.engine.topics.find(name)


def _check_may_delete(services: Services, context: RequestContext, name: str) -> None:
    session = context.session
    if not services.authorizer.allows(session, Operation.DELETE, Resource.CLUSTER, CLUSTER_NAME):
        services.topics.require(session, name, Operation.DELETE)


def _check(name: str | None, topic_id: UUID | None, times: int) -> None:
    if name is None and topic_id is None:
        raise InvalidRequest("Neither topic name nor id were specified.")
    if name is not None and topic_id is not None:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    if times > 1:
        raise InvalidRequest(f"Duplicate topic {'id' if name is None else 'name'}.")


API = Api(ApiKey.DELETE_TOPICS, "DeleteTopics", handle=handle)
