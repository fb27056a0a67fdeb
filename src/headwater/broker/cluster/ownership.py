"""Decides whether this broker serves a request for a stream's data.

Any broker can serve any stream. A client is sent to another broker if this one drains, or if
``enforce_owner`` is set and another broker owns the stream. A consumer is also sent to the broker
in its own rack (KIP-392).
"""

from headwater.broker.services import Services
from headwater.errors import NotLeaderOrFollower


def check_served_here(services: Services, stream: int, zone: str | None, listener: str) -> None:
    """Raises ``NotLeaderOrFollower`` if another broker should serve clients of this zone and
    listener.
    """
    cluster = services.cluster
    if cluster.redirects_clients:
        raise NotLeaderOrFollower("this broker is draining: another broker serves this partition")
    if services.settings.enforce_owner:
        owner = cluster.zone(zone, listener).leader(stream)
        if owner != cluster.node_id:
            raise NotLeaderOrFollower(f"broker {owner} owns this partition")


def preferred_read_replica(
    services: Services, stream: int, rack: str | None, listener: str
) -> int | None:
    """The broker in the client's rack that should serve a stream; None if the client stays."""
    if rack is None or rack == services.settings.rack:
        return None
    near = services.cluster.zone(rack, listener)
    return near.leader(stream) if near.addresses[0].rack == rack else None


def count_zone_bytes(services: Services, zone: str | None, size: int) -> None:
    """Count bytes of records as within or across zones, if client and broker both name a zone."""
    own = services.settings.rack
    if zone is not None and own is not None:
        services.metrics.zone_bytes["within" if zone == own else "across"].inc(size)
