"""ElectLeaders, versions 0-2.

Behaviour: partitions have no leader to elect, so there is never anything to do: 84 for each
partition that is named, as Kafka says where the preferred leader leads already, and nothing for
"all partitions". Codes: 3 unknown topic or partition, 42 a kind of election that is not known.

Notes by version: kinds of election, and an error at the top, from 1 on.
"""

from typing import Any, Final

from headwater.broker.dispatch import Api
from headwater.broker.replies import Values
from headwater.broker.services import Call, Services
from headwater.errors import UnknownTopicOrPartition
from headwater.wire.api_versions import ApiKey
from headwater.wire.error_codes import Code

_KINDS: Final = (0, 1)
_ELECTION_NOT_NEEDED: Final = 84

Verdict = tuple[int, str]


async def handle(services: Services, request: Any, call: Call) -> Values:
    """One verdict for each partition."""
    kind = getattr(request, "election_type", 0)
    unknown_kind = kind not in _KINDS
    results = []
    for asked in request.topic_partitions or ():
        known = 0 if unknown_kind else await _partitions(services, asked.topic)
        verdicts = [
            (
                partition,
                (Code.INVALID_REQUEST, f"Unknown election type {kind}")
                if unknown_kind
                else _verdict(asked.topic, partition, known),
            )
            for partition in asked.partitions
        ]
        results.append(
            {
                "topic": asked.topic,
                "partition_result": [
                    {"partition_id": partition, "error_code": code, "error_message": message}
                    for partition, (code, message) in verdicts
                ],
            }
        )
    return {
        "error_code": Code.INVALID_REQUEST if unknown_kind else Code.NONE,
        "replica_election_results": results,
    }


async def _partitions(services: Services, name: str) -> int | None:
    try:
        return len((await services.engine.topics.find(name)).streams)
    except UnknownTopicOrPartition:
        return None


def _verdict(topic: str, partition: int, known: int | None) -> Verdict:
    if known is None:
        return Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}"
    if not 0 <= partition < known:
        return Code.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{partition}"
    return _ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."


API = Api(ApiKey.ELECT_LEADERS, "ElectLeaders", handle=handle)
