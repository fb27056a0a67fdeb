"""Reads a client's availability zone from its client id.

A client names its zone in ``client.id``, a list of ``key=value`` in any order:
``zone_id=eu-west-1a,app=billing``. Metadata then lists only the brokers whose rack is that zone,
so that its traffic stays in the zone (``LiveBrokers.zone``).
"""

from typing import Final

_KEY: Final = "zone_id="


def zone_of(client_id: str | None) -> str | None:
    """The zone that a client id names, or None.

    >>> zone_of("zone_id=eu-west-1a,app=billing"), zone_of("app=billing, zone_id=b ")
    ('eu-west-1a', 'b')
    >>> zone_of("billing"), zone_of("zone_id="), zone_of("my_zone_id=a"), zone_of(None)
    (None, None, None, None)
    """
    if client_id is None or _KEY not in client_id:
        return None
    for part in client_id.split(","):
        if part.strip().startswith(_KEY):
            return part.strip().removeprefix(_KEY).strip() or None
    return None
