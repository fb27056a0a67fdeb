"""What PostgreSQL does beyond the conformance suite: locks, lost answers, watches, sessions."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from random import Random
from threading import Thread

import pytest

from headwater.errors import (
    StoreError,
    StoreUnavailable,
    TransactionTooLarge,
    UnknownOutcome,
)
from headwater.meta.postgres import PostgresStore
from headwater.meta.store import CommitResult, KeyChange, Values, Writes
from tests.support.meta.conformance import RefusedDecision, bind, increment, put
from tests.support.metadata_servers.cuts import Cuts
from tests.support.metadata_servers.postgres import PostgresBackend, PostgresServers, opened

PROCESSES = "tests.support.metadata_servers.postgres_processes"


@pytest.fixture
def backend(postgres: PostgresServers, names: Iterator[int]) -> PostgresBackend:
    return postgres.backend(f"only-{next(names)}")


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", PROCESSES, *arguments,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            started.kill()
        await started.communicate()


async def line(started: asyncio.subprocess.Process) -> str:
    assert started.stdout is not None
    return (await started.stdout.readline()).decode().strip()


async def test_a_process_paused_in_its_transaction_is_passed_by(backend: PostgresBackend) -> None:
    async with opened(backend.url) as store, process("pause", backend.url) as paused:
        await put(store, contended=b"0")
        assert await line(paused) == "decided"
        await put(store, contended=b"1")
        assert paused.stdin is not None
        paused.stdin.write(b"\n")
        assert await line(paused) == "locked"
        await put(store, contended=b"2")  # raises where it waits for longer than it may
        os.kill(paused.pid, signal.SIGCONT)
        assert await line(paused) == StoreUnavailable.__name__
        entry = await store.get("contended")
        assert entry is not None
        assert entry.value == b"2"


async def test_a_commit_whose_answer_is_lost_is_unknown(
    postgres: PostgresServers, backend: PostgresBackend
) -> None:
    async with Cuts(postgres.server.port) as cuts:
        url = backend.url.replace(str(postgres.server.port), str(cuts.port))
        async with opened(url) as store:
            await put(store, a=b"0")

            def decide(values: Values) -> tuple[Writes, None]:
                cuts.swallow_answers()
                return Writes(puts={"a": b"1"}), None

            with pytest.raises(UnknownOutcome):
                await store.transact(0, ["a"], decide)
            cuts.heal()
            found = await backend.sql("SELECT convert_from(value, 'UTF8') FROM entry")
            assert [row[0] for row in found] == ["1"]
            assert (await store.transact(0, ["n"], increment("n"))).result == 1


async def test_a_transaction_cut_before_its_commit_has_written_nothing(
    postgres: PostgresServers, backend: PostgresBackend
) -> None:
    async with Cuts(postgres.server.port) as cuts:
        url = backend.url.replace(str(postgres.server.port), str(cuts.port))
        async with opened(url) as store:
            await put(store, a=b"0")
            cuts.swallow_answers()
            with pytest.raises(StoreUnavailable):
                await store.transact(0, ["a"], increment("a"))
            cuts.heal()
            runs = 0

            def decide(values: Values) -> tuple[Writes, None]:
                nonlocal runs
                runs += 1
                if runs == 1:
                    commit_elsewhere(backend.url, "a", b"5")
                else:  # under the lock: the connection goes before COMMIT is sent
                    cuts.swallow_answers()
                return Writes(puts={"a": b"6"}), None

            with pytest.raises(StoreUnavailable):
                await store.transact(0, ["a"], decide)
            cuts.heal()
            assert runs == 2
            assert (await store.transact(0, ["a"], increment("a"))).result == 6


async def test_a_lost_comparison_is_decided_again_and_lands(backend: PostgresBackend) -> None:
    runs = 0

    def decide(values: Values) -> tuple[Writes, bytes]:
        nonlocal runs
        runs += 1
        if runs == 1:
            commit_elsewhere(backend.url, "a", b"theirs")
        entry = values["a"]
        return Writes(puts={"a": b"mine"}), entry.value if entry else b""

    async with opened(backend.url) as store:
        assert (await store.transact(0, ["a"], decide)).result == b"theirs"
        entry = await store.get("a")
        assert entry is not None
        assert entry.value == b"mine"


async def test_waiting_transactions_share_a_commit_and_none_sees_another_half(
    backend: PostgresBackend,
) -> None:
    def refuse(values: Values) -> tuple[Writes, None]:
        raise RefusedDecision

    async with opened(backend.url) as store:
        session = await store.session(ttl=20)
        await session.close()
        lost = Writes()
        lost.put("e", b"", session=session.id)
        outcomes = await asyncio.gather(
            *(store.transact(0, [f"k{n}"], increment(f"k{n}")) for n in range(9)),
            *(store.transact(0, ["n"], increment("n")) for _ in range(3)),
            store.transact(0, ["n"], refuse),
            store.transact(0, [], lambda values: (lost, None)),
            return_exceptions=True,
        )
        assert [type(outcome).__name__ for outcome in outcomes[12:]] == [
            "RefusedDecision",
            "SessionLost",
        ]
        committed = [outcome for outcome in outcomes if isinstance(outcome, CommitResult)]
        assert [each.result for each in committed] == [*[1] * 9, 1, 2, 3]
        assert len({each.revision for each in committed}) == 12


async def test_a_key_that_no_index_takes_fails_its_own_transaction_alone(
    backend: PostgresBackend,
) -> None:
    long = Random(1).randbytes(5_000).hex()
    async with opened(backend.url) as store:
        outcomes = await asyncio.gather(
            *(put(store, **{key: b"x"}) for key in ("a", "b", long, "c")), return_exceptions=True
        )
        assert [type(each) for each in outcomes] == [int, int, TransactionTooLarge, int]
        assert [entry.key for entry in (await store.scan("", "~")).entries] == ["a", "b", "c"]


async def test_a_watch_has_no_gap_across_restarts_of_the_server(
    postgres: PostgresServers, backend: PostgresBackend
) -> None:
    async with opened(backend.url) as store, opened(backend.url) as other:
        start = (await store.scan("a", "b")).revision
        taking = asyncio.create_task(collect(other, start, 60))
        for number in range(60):
            if number in {20, 40}:
                await asyncio.to_thread(postgres.server.restart, crash=number == 20)
            await put_until_known(store, f"w/{number:03d}")
        changes = await taking
        assert [change.key for change in changes] == [f"w/{number:03d}" for number in range(60)]
        revisions = [change.revision for change in changes]
        assert revisions == sorted(set(revisions))


async def test_revisions_become_visible_in_order_while_processes_write(
    backend: PostgresBackend,
) -> None:
    names, count = ("a", "b", "c"), 40
    total = 2 * len(names) * count
    async with opened(backend.url) as store:
        taking = asyncio.create_task(collect(store, 0, total, ""))
        writers = [process("write", backend.url, name, str(count)) for name in names]
        async with writers[0] as a, writers[1] as b, writers[2] as c:
            ending = asyncio.gather(a.wait(), b.wait(), c.wait())
            while not ending.done():
                ((head, changes, last),) = await backend.sql(
                    "SELECT head.revision, (SELECT count(*) FROM change),"
                    " (SELECT max(revision) FROM change) FROM head"
                )
                assert (changes, last or 0) == (head, head)
            assert list(await ending) == [0, 0, 0]
        changes = await taking
    assert [change.revision for change in changes] == list(range(1, total + 1))
    assert [change.value for change in changes if change.key == "n"] == [
        b"%d" % number for number in range(1, len(names) * count + 1)
    ]
    for name in names:
        written = [change.key for change in changes if change.key.startswith(f"w/{name}/")]
        assert written == [f"w/{name}/{number:04d}" for number in range(count)]


async def test_a_session_outlives_connections_that_went_silent(
    postgres: PostgresServers, backend: PostgresBackend
) -> None:
    async with Cuts(postgres.server.port) as cuts:
        url = backend.url.replace(str(postgres.server.port), str(cuts.port))
        async with opened(url) as store:
            session = await store.session(ttl=3)
            await asyncio.gather(*(store.get("a") for _ in range(4)))
            cuts.silence()
            await asyncio.sleep(5)
            assert not session.lost
            assert len(await backend.sql("SELECT FROM session")) == 1


async def test_a_session_does_not_end_because_the_servers_clock_was_set(
    backend: PostgresBackend,
) -> None:
    """What it wrote with the clock then lies in the past, or in the future."""
    async with opened(backend.url) as store, opened(backend.url) as other:
        for step in ("- interval '1 hour'", "+ interval '1 hour'"):
            session = await store.session(ttl=2)
            await bind(store, session, "e/a")
            await backend.sql(f"UPDATE session SET expires = expires {step}")
            await asyncio.sleep(1.5)
            assert await other.get("e/a") is not None
            await bind(store, session, "e/a")
            await backend.abandon(session)
            async with asyncio.timeout(5):
                while await other.get("e/a") is not None:
                    await asyncio.sleep(0.1)


async def test_a_session_that_was_renewed_since_it_was_seen_is_not_ended(
    backend: PostgresBackend,
) -> None:
    async with opened(backend.url) as store:
        session = await store.session(ttl=20)
        await bind(store, session, "e/a")
        look = "SELECT xmin::text FROM session"
        ((seen,),) = await backend.sql(look)
        await backend.sql("UPDATE session SET renewed = clock_timestamp()")
        end = "SELECT revision FROM end_silent_sessions($1, $2)"
        assert [tuple(row) for row in await backend.sql(end, [session.id], [seen])] == [(None,)]
        assert await store.get("e/a") is not None
        ((seen,),) = await backend.sql(look)
        ((revision,),) = await backend.sql(end, [session.id], [seen])
        assert revision is not None
        assert await store.get("e/a") is None


def commit_elsewhere(url: str, key: str, value: bytes) -> None:
    """Commit from another store while this loop's thread waits, as another process would."""

    async def main() -> None:
        async with opened(url) as store:
            await put(store, **{key: value})

    thread = Thread(target=asyncio.run, args=(main(),))
    thread.start()
    thread.join()


async def put_until_known(store: PostgresStore, key: str) -> None:
    """Write a key once, whatever becomes of the server meanwhile."""
    while True:
        try:
            if await store.get(key) is None:
                await put(store, **{key: b""})
        except StoreError:
            await asyncio.sleep(0.05)
        else:
            return


async def collect(
    store: PostgresStore, after: int, count: int, prefix: str = "w/"
) -> list[KeyChange]:
    """The next changes; a watch that fails goes on from where it was, as a broker's does."""
    changes: list[KeyChange] = []
    while len(changes) < count:
        with suppress(StoreUnavailable):
            async for some in store.watch(prefix, changes[-1].revision if changes else after):
                changes.extend(some)
                if len(changes) >= count:
                    break
    return changes
