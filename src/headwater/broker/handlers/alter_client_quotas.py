"""AlterClientQuotas, versions 0-1.

Behaviour: sets or removes limits of users, client ids, both together, and IP addresses. All brokers
enforce them (see ``quotas``). Each entity is changed independently. ``validate_only`` checks and
changes nothing.

Codes: INVALID_REQUEST (42): an illegal entity (without parts, of an unknown kind, with an empty
name, named twice, an illegal address, or an address combined with something else) or an illegal
limit (unknown, not positive, too large, a fraction where an integer is needed, or given twice).

Left out: nothing.
"""

from collections import Counter
from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.quotas.entities import (
    Entity,
    check_alteration,
    entity_description,
    entity_rows,
)
from headwater.broker.services import RequestContext, Services
from headwater.errors import InvalidRequest, KafkaError
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each entity."""
    entities = [_entity(entry) async for entry in in_turns(request.entries)]
    times = Counter(entities)
    results: dict[Entity, Values] = {}
    pairs = zip(request.entries, entities, strict=True)
    async for entry, entity in in_turns(pairs):
        result: Values = {"entity": entity_rows(entity)}
        try:
            await _alter(services, entity, entry.ops, times[entity], request.validate_only)
        except KafkaError as error:
            result |= {"error_code": error.code, "error_message": str(error)}
        results[entity] = result
    if not request.validate_only:
        await services.dynamic.stored_quotas.refresh()
    return {"entries": list(results.values())}


def _entity(entry: Any) -> Entity:
    """The entity of an entry. If a kind is named twice, the last name counts, as in Kafka."""
    return frozenset({part.entity_type: part.entity_name for part in entry.entity}.items())


async def _alter(
    services: Services,
    entity: Entity,
    operations: Any,
    times: int,
    validate_only: bool,  # noqa: FBT001
) -> None:
    limits = {one.key: None if one.remove else one.value for one in operations}
    if times > 1 or len(limits) != len(operations):
        raise InvalidRequest(f"Ignoring duplicate entity {entity_description(entity)}")
    check_alteration(entity, limits)
    if not validate_only:
        await services.dynamic.stored_quotas.change(entity, limits, refresh=False)


API = Api(
    ApiKey.ALTER_CLIENT_QUOTAS,
    "AlterClientQuotas",
    handle=handle,
    operation=Operation.ALTER_CONFIGS,
    resource=Resource.CLUSTER,
)
