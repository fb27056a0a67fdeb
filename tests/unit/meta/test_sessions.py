"""When a process treats its session as lost: clocks that jump, and blocked event loops."""

import asyncio
import time
from dataclasses import dataclass

from headwater.errors import StoreUnavailable
from headwater.meta.renewal_thread import RenewalThread
from headwater.meta.sessions import MAX_BLOCKED_TTLS, LoopPulse, RenewedSession
from tests.support.meta.conformance_sessions import hold_loop

TTL = 0.3


@dataclass
class SuspendableHost:
    """A boot clock that a test moves on, and a store that counts renewals."""

    suspended: float = 0.0
    renewed: int = 0
    unavailable: bool = False

    def now(self) -> float:
        return time.monotonic() + self.suspended

    async def renew(self) -> None:
        if self.unavailable:
            raise StoreUnavailable("away")
        self.renewed += 1

    async def end(self) -> None:
        """Nothing is kept."""

    def session(self, *, ttl: float = TTL, thread: RenewalThread | None = None) -> RenewedSession:
        return RenewedSession(
            "s",
            ttl=ttl,
            opened=self.now(),
            now=self.now,
            renew=self.renew,
            end=self.end,
            thread=thread,
        )


async def test_a_session_is_lost_at_the_first_check_after_the_machine_was_suspended() -> None:
    host = SuspendableHost()
    session = host.session(ttl=10)
    assert not session.lost
    host.suspended = 20
    assert session.lost
    assert session.remaining < 0
    await session.abandon()


async def test_a_renewal_from_before_a_suspension_does_not_prolong_the_session() -> None:
    host = SuspendableHost()

    async def suspend() -> None:
        host.suspended += 10 * TTL

    host.renew = suspend  # type: ignore[method-assign]
    session = host.session()
    await asyncio.sleep(TTL / 2)
    assert host.suspended
    assert session.lost
    await session.abandon()


async def test_renewals_continue_while_the_loop_is_blocked() -> None:
    host, thread = SuspendableHost(), RenewalThread()
    session = host.session(thread=thread)
    hold_loop(2 * TTL)
    assert host.renewed >= 2
    assert not session.lost
    await session.close()
    await thread.stop()
    assert session.lost


async def test_renewals_end_when_the_loop_has_been_blocked_for_too_long() -> None:
    host, thread = SuspendableHost(), RenewalThread()
    session = host.session(thread=thread)
    await asyncio.sleep(TTL)
    hold_loop((MAX_BLOCKED_TTLS + 1) * TTL)
    assert session.lost
    renewed = host.renewed
    await session.wait_lost()
    assert host.renewed == renewed
    await thread.stop()


async def test_a_session_is_lost_if_the_store_is_unreachable_for_its_ttl() -> None:
    host, thread = SuspendableHost(unavailable=True), RenewalThread()
    session = host.session(thread=thread)
    async with asyncio.timeout(20):
        await session.wait_lost()
    assert session.lost
    await thread.stop()


async def test_a_running_loop_is_blocked_for_zero_seconds() -> None:
    loop, seconds = asyncio.get_running_loop(), [0.0]
    pulse = LoopPulse(loop, lambda: seconds[0])
    assert pulse.blocked_seconds() == 0
    seconds[0] = 5
    assert pulse.blocked_seconds() == 5
    await asyncio.sleep(0)
    assert pulse.blocked_seconds() == 0
