"""When a broker ends the session of another one, by its own clock only."""

from headwater.meta.postgres.session_expiry import SessionExpiry, SessionRow


class HostClock:
    seconds = 0.0

    def now(self) -> float:
        return self.seconds


def test_a_session_expires_when_its_version_stays_the_same_for_longer_than_its_ttl() -> None:
    host = HostClock()
    silent = SessionExpiry(host.now)
    one, two = SessionRow("a", "7", 10), SessionRow("b", "8", 20)
    assert silent.expired([one, two]) == []
    host.seconds = 10
    assert silent.expired([one, two]) == []
    host.seconds = 10.1
    assert silent.expired([one, two]) == [one]
    host.seconds = 20.1
    assert silent.expired([one, two]) == [one, two]


def test_a_renewal_restarts_the_ttl() -> None:
    host = HostClock()
    silent = SessionExpiry(host.now)
    silent.expired([SessionRow("a", "7", 10)])
    host.seconds = 10.1
    assert silent.expired([SessionRow("a", "8", 10)]) == []
    host.seconds = 20
    assert silent.expired([SessionRow("a", "8", 10)]) == []
    host.seconds = 20.3
    assert silent.expired([SessionRow("a", "8", 10)]) == [SessionRow("a", "8", 10)]


def test_a_session_that_is_gone_is_forgotten() -> None:
    host = HostClock()
    silent = SessionExpiry(host.now)
    silent.expired([SessionRow("a", "7", 10)])
    silent.expired([])
    host.seconds = 11
    assert silent.expired([SessionRow("a", "7", 10)]) == []
    assert len(silent._since) == 1
