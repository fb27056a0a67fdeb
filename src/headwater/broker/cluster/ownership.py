"""Which requests for a stream's data are served here, and which are sent elsewhere.

Any broker can serve any stream, and does. Clients are sent to another one where this broker
drains, where ``enforce_owner`` asks that only the broker that Metadata names serves a stream, and,
for fetches, where the client's rack has a broker of its own (KIP-392).
"""

from headwater.broker.services import Services
from headwater.errors import NotLeaderOrFollower


def check_served_here(services: Services, stream: int, zone: str | None, listener: str) -> None:
    """Raises ``NotLeaderOrFollower`` if a client of that zone and listener should go elsewhere."""
    cluster = services.cluster
    if cluster.sends_away:
        raise NotLeaderOrFollower("this broker drains: another one serves this partition")
    if services.settings.enforce_owner:
        owner = cluster.zone(zone, listener).leader(stream)
        if owner != cluster.node_id:
            raise NotLeaderOrFollower(f"broker {owner} serves this partition")


def nearer_broker(services: Services, stream: int, rack: str | None, listener: str) -> int | None:
    """The broker in the client's rack that serves a stream, where this one is elsewhere."""
    if rack is None or rack == services.settings.rack:
        return None
    near = services.cluster.zone(rack, listener)
    return near.leader(stream) if near.addresses[0].rack == rack else None


def count_zone_bytes(services: Services, zone: str | None, size: int) -> None:
    """Note whether bytes of records stayed in their client's zone, where both sides name one."""
    own = services.settings.rack
    if zone is not None and own is not None:
        services.metrics.zone_bytes["within" if zone == own else "across"].inc(size)
