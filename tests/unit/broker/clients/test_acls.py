"""Access control lists are refused with Kafka's error for a broker without an authorizer."""

from typing import Any

import pytest

from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import RunningBroker

SECURITY_DISABLED = (54, "No Authorizer is configured.")
ANY = {"operation": 1, "permission_type": 1}


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_acls_are_refused_because_security_is_disabled(
    broker: RunningBroker, version: int
) -> None:
    def one(word: str) -> dict[str, Any]:
        """A resource, or a filter of resources."""
        return {
            f"resource_type{word}": 2, f"resource_name{word}": "t", f"principal{word}": "User:a",
            f"host{word}": "*", **ANY,
            ("pattern_type_filter" if word else "resource_pattern_type"): 3,
        }  # fmt: skip

    described = await broker.call(ApiKey.DESCRIBE_ACLS, version, **one("_filter"))
    assert (described.error_code, described.error_message) == SECURITY_DISABLED
    assert described.resources == ()
    created = await broker.call(ApiKey.CREATE_ACLS, version, creations=[one(""), one("")])
    codes = [(each.error_code, each.error_message) for each in created.results]
    assert codes == [SECURITY_DISABLED] * 2
    deleted = await broker.call(ApiKey.DELETE_ACLS, version, filters=[one("_filter")])
    (found,) = deleted.filter_results
    assert (found.error_code, found.error_message, found.matching_acls) == (*SECURITY_DISABLED, ())
