"""Quota entities: their names, the precedence of their quotas, and checks of changes.

An entity is a user, a client id, both together, or an IP address. Each part may be the default of
its kind, which applies to all without a specific quota.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import quote, unquote

from headwater.broker.network.replies import Values
from headwater.errors import InvalidRequest

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
DEFAULT: Final = None
"""The name of a kind's default entity."""

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_LONG_MAX: Final = 2.0**63
_INT_MAX: Final = 2.0**31 - 1
_FRACTION: Final = 1e-6

_CLIENT_KEYS: Final[Mapping[str, str | None]] = {
    PRODUCER_BYTE_RATE: "LONG",
    CONSUMER_BYTE_RATE: "LONG",
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_IP_KEYS: Final[Mapping[str, str | None]] = {CONNECTION_CREATION_RATE: "INT"}
"""Quotas by name, with the type of integer that they must be; None allows fractions."""

Entity = frozenset[tuple[str, str | None]]
"""(kind, name) of each part; the name is None for the default."""

Quotas = Mapping[str, float]
"""An entity's limits by their names."""


def entity_rows(entity: Entity) -> list[Values]:
    """The parts of an entity as replies list them."""
    return [{"entity_type": kind, "entity_name": name} for kind, name in _sorted_parts(entity)]


def _sorted_parts(entity: Entity) -> list[tuple[str, str | None]]:
    return sorted(entity, key=lambda part: part[0])


def entity_text(entity: Entity) -> str:
    """An entity as a part of a metadata key.

    >>> entity_text(frozenset({("user", "a b"), ("client-id", None)}))
    'client-id&user=a%20b'
    """
    return "&".join(
        kind if name is DEFAULT else f"{kind}={quote(name, safe='')}"
        for kind, name in _sorted_parts(entity)
    )


def entity_of(text: str) -> Entity:
    """The reverse of ``entity_text``.

    >>> sorted(entity_of("client-id&user=a%20b"), key=str)
    [('client-id', None), ('user', 'a b')]
    """
    parts = (part.partition("=") for part in text.split("&"))
    return frozenset((kind, unquote(name) if equals else DEFAULT) for kind, equals, name in parts)


def entity_description(entity: Entity) -> str:
    """An entity as Kafka's messages write it."""
    parts = sorted(f"{kind}={name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{', '.join(parts)}}})"


def check_alteration(entity: Entity, limits: Mapping[str, float | None]) -> None:
    """Raises ``InvalidRequest`` if a change of limits is illegal; a limit of None is removed.

    Host names are refused, because their addresses may change unnoticed.
    """
    kinds = _check_entity(entity)
    if IP in kinds:
        if len(kinds) > 1:
            raise InvalidRequest(
                "Invalid quota entity combination, IP entity should not be combined with User or "
                "ClientId"
            )
        _check_address(kinds[IP])
    known = _IP_KEYS if IP in kinds else _CLIENT_KEYS
    for key, value in limits.items():
        if value is not None:
            _check_value(known, key, value)


def _check_entity(entity: Entity) -> dict[str, str | None]:
    if not entity:
        raise InvalidRequest("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
    return dict(entity)


def _check_address(address: str | None) -> None:
    if address is DEFAULT:
        return
    try:
        plain_address(address)
    except ValueError:
        raise InvalidRequest(f"{address} is not a valid IP or resolvable host.") from None


def _check_value(known: Mapping[str, str | None], key: str, value: float) -> None:
    if key not in known:
        raise InvalidRequest(f"Invalid configuration key {key}")
    if not value > 0:  # false for NaN, too
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    whole = known[key]
    if whole is None:
        return
    if value > (_LONG_MAX if whole == "LONG" else _INT_MAX):
        article = "an" if whole == "INT" else "a"
        raise InvalidRequest(f"Proposed value for {key} is too large for {article} {whole}.")
    if value % 1.0 > _FRACTION:
        raise InvalidRequest(f"{key} cannot be a fractional value.")


@dataclass(frozen=True, slots=True)
class EffectiveQuota:
    """The limit that applies to a client, and the clients that share it."""

    limit: float
    shared_by: tuple[str | None, str | None]
    """User and client id that share one count; None means all users, or all client ids."""


def client_limit(
    quotas: Mapping[Entity, Quotas], key: str, user: str, client_id: str
) -> EffectiveQuota | None:
    """The most specific quota for a client, by Kafka's precedence; None without a quota."""
    for entity_user, entity_client in _precedence(user, client_id):
        entity = frozenset((*entity_user, *entity_client))
        limit = quotas.get(entity, {}).get(key)
        if limit is not None:
            shared_by = (user if entity_user else None, client_id if entity_client else None)
            return EffectiveQuota(limit, shared_by)
    return None


_Part = tuple[tuple[str, str | None], ...]
"""One part of an entity, or none."""


def _precedence(user: str, client_id: str) -> Sequence[tuple[_Part, _Part]]:
    own_user, any_user = ((USER, user),), ((USER, DEFAULT),)
    own_client, any_client = ((CLIENT_ID, client_id),), ((CLIENT_ID, DEFAULT),)
    return (
        (own_user, own_client),
        (own_user, any_client),
        (own_user, ()),
        (any_user, own_client),
        (any_user, any_client),
        (any_user, ()),
        ((), own_client),
        ((), any_client),
    )


def address_limits(quotas: Mapping[Entity, Quotas]) -> dict[str | None, float]:
    """The new connections per second of each address; None is the default for all others."""
    found: dict[str | None, float] = {}
    for entity, limits in quotas.items():
        limit = limits.get(CONNECTION_CREATION_RATE)
        parts = dict(entity)
        if limit is not None and IP in parts:
            name = parts[IP]
            found[name if name is DEFAULT else plain_address(name)] = limit
    return found


def plain_address(text: str) -> str:
    """An IP address in its canonical form. Raises ``ValueError`` if it is not one.

    >>> plain_address("2001:DB8:0::1"), plain_address("::ffff:10.0.0.1")
    ('2001:db8::1', '10.0.0.1')
    """
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
