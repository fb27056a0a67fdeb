"""DeleteGroups, versions 0-2.

Behaviour: a group without members goes with its offsets. Codes of each group: 15, 16, 68 where
it has members, 69 where it does not exist. A group that is named twice is answered once.

Left out: nothing.
"""

import asyncio
from typing import Any

from headwater.broker.dispatch import Api
from headwater.broker.replies import Values
from headwater.broker.services import Call, Services
from headwater.errors import KafkaError
from headwater.wire.api_versions import ApiKey


async def handle(services: Services, request: Any, call: Call) -> Values:
    """Groups go side by side, so that they share transactions."""
    groups = list(dict.fromkeys(request.groups_names))
    codes = await asyncio.gather(*(_delete(services, group) for group in groups))
    return {
        "results": [
            {"group_id": group, "error_code": code}
            for group, code in zip(groups, codes, strict=True)
        ]
    }


async def _delete(services: Services, group: str) -> int:
    try:
        return await services.groups.delete(group)
    except KafkaError as error:
        return error.code


API = Api(ApiKey.DELETE_GROUPS, "DeleteGroups", handle=handle)
