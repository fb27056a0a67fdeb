"""Whole sessions of lifelike, changed and absurd requests against a real broker.

``HEADWATER_FUZZ_SECONDS`` says for how long; without it one fixed set of sessions runs. A session
fails if the broker dies, writes a traceback, or stalls another connection's call. It must stall
again when it is sent again, because a busy machine stalls calls, too. The broker may not grow.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.fuzz.requests import TOPIC_CONFIGS, FuzzedRequest, steps
from tests.system.hostile.harness import CALL_LIMIT, GROWTH_LIMIT, Target, probe_of, target

SECONDS = float(os.environ.get("HEADWATER_FUZZ_SECONDS", "0"))
SESSIONS_PER_RUN = 200
QUIET_SECONDS = 0.1
"""A session is over when no reply has come for so long: some requests wait for others."""


async def send(broker: Target, session: Sequence[FuzzedRequest]) -> None:
    """Send all requests at once; read replies until there are no more, or the end."""
    frames = b"".join(step.frame() for step in session)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    except OSError:
        return
    with contextlib.suppress(ConnectionError, TimeoutError):
        writer.write(frames)
        while await asyncio.wait_for(reader.read(2**16), QUIET_SECONDS):
            pass
    writer.transport.abort()


def test_no_session_ends_stalls_or_grows_a_broker(tmp_path: Path) -> None:
    deadline = time.monotonic() + SECONDS
    with target(tmp_path / "data") as broker, probe_of(broker) as probe:
        for name, configs in TOPIC_CONFIGS.items():
            asyncio.run(broker.create_topic(name, 4, configs))

        def stalls(session: Sequence[FuzzedRequest]) -> bool:
            asyncio.run(send(broker, session))
            assert broker.alive, broker.log[-4000:]
            assert "Traceback" not in broker.log, broker.log[broker.log.index("Traceback") - 300 :]
            return probe.slowest() > CALL_LIMIT

        @settings(max_examples=SESSIONS_PER_RUN, derandomize=not SECONDS)
        @given(st.lists(steps(), min_size=1, max_size=12))
        def run(session: Sequence[FuzzedRequest]) -> None:
            assert not all(stalls(session) for _ in range(3)), "other clients' calls stall"

        run()
        start = broker.start_of_growth()
        while time.monotonic() < deadline:
            run()
        assert broker.peak_memory() - start < GROWTH_LIMIT
