"""The filter of a DescribeClientQuotas request."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.broker.quotas.entities import CLIENT_ID, DEFAULT, IP, USER, Entity
from headwater.errors import InvalidRequest, UnsupportedVersion

_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2


@dataclass(frozen=True, slots=True)
class Filter:
    """An entity must have the parts in ``exact``, by kind and name, and a part of each kind in
    ``present``. A strict filter allows no other part.
    """

    exact: Mapping[str, str | None]
    present: frozenset[str]
    strict: bool

    def matches(self, entity: Entity) -> bool:
        parts = dict(entity)
        if self.strict and len(parts) != len(self.exact) + len(self.present):
            return False
        return all(
            kind in parts and parts[kind] == name for kind, name in self.exact.items()
        ) and all(kind in parts for kind in self.present)


def filter_of(components: Iterable[Any], *, strict: bool) -> Filter:
    """Raises ``InvalidRequest`` or ``UnsupportedVersion``, as Kafka does."""
    exact: dict[str, str | None] = {}
    present: set[str] = set()
    for component in components:
        kind = component.entity_type
        _check_kind(kind, exact.keys() | present)
        _check_match(component.match_type, component.match)
        if component.match_type == _SPECIFIED:
            present.add(kind)
        else:
            exact[kind] = component.match if component.match_type == _EXACT else DEFAULT
    kinds = exact.keys() | present
    if IP in kinds and len(kinds) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return Filter(exact, frozenset(present), strict)


def _check_kind(kind: str, seen: Iterable[str]) -> None:
    if not kind:
        raise InvalidRequest("Invalid empty entity type.")
    if kind in seen:
        raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in (USER, CLIENT_ID, IP):
        raise UnsupportedVersion(f"Unsupported entity type {kind}")


def _check_match(match_type: int, match: str | None) -> None:
    if match_type == _EXACT:
        if match is None:
            raise InvalidRequest(
                "Request specified MATCH_TYPE_EXACT, but set match string to null."
            )
    elif match_type in (_DEFAULT, _SPECIFIED):
        if match is not None:
            name = "DEFAULT" if match_type == _DEFAULT else "SPECIFIED"
            raise InvalidRequest(
                f"Request specified MATCH_TYPE_{name}, but also specified a match string."
            )
    else:
        raise InvalidRequest(f"Unknown match type {match_type}")
