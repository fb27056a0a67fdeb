"""What a member says of itself costs the group's neighbours nothing."""

import pytest

from tests.broker.running import request_frame
from tests.hostile.harness import Target

METADATA = {
    "an array of 2^31-1 topics": b"\0\1\x7f\xff\xff\xff",
    "JSON": b'{"version": 1, "topics": ["orders"]}',
    "a negative count": b"\0\1\xff\xff\xff\xf0" + b"\0" * 20,
}


@pytest.mark.parametrize("metadata", METADATA.values(), ids=METADATA.keys())
async def test_metadata_that_does_not_parse_ends_no_broker(broker: Target, metadata: bytes) -> None:
    frame = request_frame(
        11,
        3,
        1,
        group_id="strangers",
        session_timeout=6_000,
        rebalance_timeout=6_000,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": metadata}],
    )
    async with broker.watched():
        assert await broker.attack(frame) is not None
