"""ConsumerGroupHeartbeat, versions 0-1 (KIP-848).

Behaviour: everything that a member of a consumer group says and is told: it joins with epoch 0,
leaves with -1, a static member for a while with -2; the reply has its epoch and, when it
changed, what it may own. Codes: 15, 16, 25, 42 with a message where the request contradicts
itself, 81, 82, 110, 111, 112, 128.

Notes by version: from 1 on the member chooses its own id and may subscribe by a pattern.

Left out: nothing.
"""

from typing import Any, Final

from headwater.broker.dispatch import Api
from headwater.broker.group_members import (
    client_of,
    milliseconds,
    read_assignment,
    show_assignment,
)
from headwater.broker.replies import Values
from headwater.broker.services import Call, Services
from headwater.errors import InvalidRequest, KafkaError
from headwater.groups.requests import ConsumerHeartbeatReply, ConsumerHeartbeatRequest
from headwater.wire.api_versions import ApiKey

_FIRST_VERSION_WITH_OWN_IDS: Final = 1
_JOIN: Final = 0
_LEAVE: Final = -1
_LEAVE_FOR_A_WHILE: Final = -2


async def handle(services: Services, request: Any, call: Call) -> Values:
    """Checked here for what holds whatever the group's state is."""
    try:
        heartbeat = _read(request, call)
        _check(request.group_id, heartbeat)
        reply = await services.groups.consumer_heartbeat(request.group_id, heartbeat)
    except KafkaError as error:
        reply = ConsumerHeartbeatReply(error=error.code, message=str(error) or None)
    shown: Values = {
        "error_code": reply.error,
        "error_message": reply.message,
        "member_id": reply.member_id,
        "member_epoch": reply.epoch,
        "heartbeat_interval": reply.heartbeat_interval_ms,
    }
    if reply.assignment is not None:
        shown["assignment"] = {"topic_partitions": show_assignment(reply.assignment)}
    return shown


def _read(request: Any, call: Call) -> ConsumerHeartbeatRequest:
    owned, names = request.topic_partitions, request.subscribed_topic_names
    return ConsumerHeartbeatRequest(
        client=client_of(call),
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        topic_names=None if names is None else tuple(names),
        topic_regex=getattr(request, "subscribed_topic_regex", None),
        assignor=request.server_assignor,
        owned=None if owned is None else read_assignment(owned),
        version=call.version,
    )


def _check(group: str, request: ConsumerHeartbeatRequest) -> None:
    """Kafka's own checks in Kafka's own order and words. Raises ``InvalidRequest``."""
    epoch = request.epoch
    needs_id = request.version >= _FIRST_VERSION_WITH_OWN_IDS or epoch > _JOIN or epoch == _LEAVE
    if needs_id:
        _refuse_blank(request.member_id, "MemberId")
    _refuse_blank(group, "GroupId")
    _refuse_blank(request.instance_id, "InstanceId")
    _refuse_blank(request.rack_id, "RackId")
    if epoch == _JOIN:
        if request.rebalance_timeout_ms == -1:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or request.owned:
            raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
        if request.topic_names is None and request.topic_regex is None:
            raise InvalidRequest(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                "(re-)joining."
            )
    elif epoch == _LEAVE_FOR_A_WHILE:
        if request.instance_id is None:
            raise InvalidRequest("InstanceId can't be null.")
    elif epoch < _LEAVE_FOR_A_WHILE:
        raise InvalidRequest("MemberEpoch is invalid.")


def _refuse_blank(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise InvalidRequest(f"{name} can't be empty.")


API = Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", handle=handle)
