"""Quotas as this broker holds clients to them.

Each broker counts what it serves itself, as in Kafka: a limit is per broker. A client that is
over its limit is answered at once with the time to wait, and its connection is not read until
that has passed, so that clients which do not wait are slowed down all the same.

Where no quota is set the request path pays for one look at ``active``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headwater.broker.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
    Quotas,
    address_limits,
    client_limit,
    plain_address,
)
from headwater.broker.quotas.rates import SAMPLE_MS, WINDOW_SECONDS, RateWindow, TokenBucket
from headwater.errors import ThrottlingQuotaExceeded

ANONYMOUS: Final = "ANONYMOUS"
"""The user of a connection that did not say who it is."""

_MAX_REMEMBERED: Final = 10_000

_Bucket = tuple[str, str | None, str | None]
"""A limit's name and who shares it."""


@dataclass(frozen=True, slots=True)
class _Rate:
    """One limit of a client, with the window that all who share it fill."""

    limit: float
    window: RateWindow


@dataclass(frozen=True, slots=True)
class _ClientLimits:
    produce: _Rate | None
    fetch: _Rate | None
    time: _Rate | None
    mutations: TokenBucket | None


class ClientQuotas:
    """Counts and decides; ``now`` is the monotonic clock in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._quotas: Mapping[Entity, Quotas] = {}
        self._addresses: dict[str | None, float] = {}
        self._clients: dict[str, _ClientLimits] = {}
        self._windows: dict[_Bucket, RateWindow] = {}
        self._buckets: dict[_Bucket, TokenBucket] = {}
        self.active = False
        """Some client has a quota."""
        self.timed = False
        """Some client has a quota on the broker's time."""
        self.counts_connections = False
        """Some address has a quota on connections."""

    def change(self, quotas: Mapping[Entity, Quotas]) -> None:
        """Hold clients to these quotas from now on; what was counted stays."""
        self._quotas = quotas
        self._addresses = address_limits(quotas)
        self._clients.clear()
        self.counts_connections = bool(self._addresses)
        limits = {name for entity in quotas.values() for name in entity}
        self.timed = REQUEST_PERCENTAGE in limits
        self.active = bool(
            limits
            & {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE}
        )

    def produced(self, client_id: str | None, size: int) -> int:
        """Count a Produce request of that size; returns for how long to throttle, in ms."""
        return self._count(self._limits(client_id).produce, size)

    def fetched(self, client_id: str | None, size: int) -> int:
        """Count a Fetch answer, unless it is too much, in which case it must not be sent."""
        rate = self._limits(client_id).fetch
        throttle = self._count(rate, size)
        if throttle and rate is not None:
            rate.window.record(-size, self._now_ms())
        return throttle

    def fetch_room(self, client_id: str | None) -> int | None:
        """The most that a Fetch may answer without certainly being throttled; None: no limit."""
        rate = self._limits(client_id).fetch
        return None if rate is None else int(rate.limit * WINDOW_SECONDS)

    def spent(self, client_id: str | None, seconds: float) -> None:
        """The loop worked that long for a client."""
        rate = self._limits(client_id).time
        if rate is not None:
            rate.window.record(seconds * 100, self._now_ms())

    def overspent(self, client_id: str | None) -> int:
        """For how long to throttle a client that takes too much of the loop's time."""
        rate = self._limits(client_id).time
        if rate is None:
            return 0
        return min(SAMPLE_MS, rate.window.throttle_ms(rate.limit, self._now_ms()))

    def mutations(self, client_id: str | None, *, strict: bool) -> "MutationQuota":
        """The quota under which one request creates or deletes partitions."""
        bucket = self._limits(client_id).mutations if self.active else None
        return MutationQuota(bucket, self._now_ms, strict=strict)

    def connected(self, address: str) -> int:
        """Count a new connection, unless it is one too many: then how long to hold it off."""
        try:
            name = plain_address(address)
        except ValueError:
            return 0  # a unix socket has no address
        limit = self._addresses.get(name, self._addresses.get(None))
        if limit is None:
            return 0
        window, now = self._window(("ip", name, None)), self._now_ms()
        window.record(1, now)
        throttle = min(SAMPLE_MS, window.throttle_ms(limit, now))
        if throttle:
            window.record(-1, now)
        return throttle

    def _count(self, rate: _Rate | None, amount: float) -> int:
        if rate is None:
            return 0
        now = self._now_ms()
        rate.window.record(amount, now)
        return rate.window.throttle_ms(rate.limit, now)

    def _now_ms(self) -> int:
        return int(self._now() * 1000)

    def _limits(self, client_id: str | None) -> _ClientLimits:
        name = client_id or ""
        limits = self._clients.get(name)
        if limits is None:
            if len(self._clients) >= _MAX_REMEMBERED:
                self._clients.clear()
            limits = self._clients[name] = self._look_up(name)
        return limits

    def _look_up(self, client_id: str) -> _ClientLimits:
        return _ClientLimits(
            self._rate(PRODUCER_BYTE_RATE, client_id),
            self._rate(CONSUMER_BYTE_RATE, client_id),
            self._rate(REQUEST_PERCENTAGE, client_id),
            self._mutations(client_id),
        )

    def _rate(self, key: str, client_id: str) -> _Rate | None:
        holding = client_limit(self._quotas, key, ANONYMOUS, client_id)
        if holding is None:
            return None
        return _Rate(holding.limit, self._window((key, *holding.sharers)))

    def _mutations(self, client_id: str) -> TokenBucket | None:
        key = CONTROLLER_MUTATION_RATE
        holding = client_limit(self._quotas, key, ANONYMOUS, client_id)
        if holding is None:
            return None
        now, name = self._now_ms(), (key, *holding.sharers)
        bucket = self._buckets.get(name)
        if bucket is None:
            if len(self._buckets) >= _MAX_REMEMBERED:
                self._clients.clear()
                self._buckets = {n: b for n, b in self._buckets.items() if not b.is_idle(now)}
            bucket = self._buckets[name] = TokenBucket(holding.limit, now)
        bucket.change_limit(holding.limit, now)
        return bucket

    def _window(self, name: _Bucket) -> RateWindow:
        window = self._windows.get(name)
        if window is None:
            if len(self._windows) >= _MAX_REMEMBERED:
                now = self._now_ms()
                self._clients.clear()  # they hold windows, which must not count apart
                self._windows = {n: w for n, w in self._windows.items() if not w.is_idle(now)}
            window = self._windows[name] = RateWindow()
        return window


class MutationQuota:
    """What one request may create and delete; ``throttle_ms`` goes into its answer.

    A strict quota refuses what comes when it is exhausted, but never in the middle of one
    topic; clients of old versions, which know no such answer, are served and then throttled.
    """

    __slots__ = ("_bucket", "_now_ms", "_strict", "throttle_ms")

    def __init__(
        self, bucket: TokenBucket | None, now_ms: Callable[[], int], *, strict: bool
    ) -> None:
        self._bucket = bucket
        self._now_ms = now_ms
        self._strict = strict
        self.throttle_ms = 0

    def take(self, partitions: int) -> None:
        """Raises ``ThrottlingQuotaExceeded`` where a strict quota is exhausted."""
        if self._bucket is None:
            return
        now = self._now_ms()
        if self._strict and (wait := self._bucket.throttle_ms(now)):
            self.throttle_ms = max(self.throttle_ms, wait)
            raise ThrottlingQuotaExceeded("The throttling quota has been exceeded.")
        self._bucket.take(partitions, now)
        if not self._strict:
            self.throttle_ms = self._bucket.throttle_ms(now)
