"""Sessions, and the keys that they leave.

A session is Oxia's own, with one ephemeral record that says that it lives. The keys bound to it
are ordinary ones: the head says whose they are, and whoever notices that a session's record is
gone deletes them in a commit like any other, so that watches are told in order.
"""

import logging
from collections.abc import Iterable
from uuid import uuid4

from headwater.errors import StoreUnavailable
from headwater.meta.oxia.committer import OxiaCommitter
from headwater.meta.oxia.failures import NO_SESSION
from headwater.meta.oxia.head_snapshot import HeadSnapshot
from headwater.meta.oxia.keyspace import OxiaKeyspace
from headwater.meta.oxia.methods import CLOSE, CREATE
from headwater.meta.oxia.renewals import session_record
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.oxia.shard import OxiaShard
from headwater.meta.store import Writes

log = logging.getLogger(__name__)

MIN_TTL_SECONDS = 2.0
"""Oxia takes no shorter time; this side counts what was asked for."""


class OxiaSessions:
    """The sessions of one store."""

    def __init__(self, shard: OxiaShard, layout: OxiaKeyspace, committer: OxiaCommitter) -> None:
        self._shard = shard
        self._layout = layout
        self._committer = committer

    async def open(self, ttl: float) -> tuple[str, int]:
        """A new session's name and Oxia's number of it. One whose answer is lost runs out."""
        name = uuid4().hex
        request = pb.CreateSessionRequest(
            shard=self._shard.number,
            session_timeout_ms=int(max(ttl, MIN_TTL_SECONDS) * 1000),
            client_identity=name,
        )
        number = (await self._shard.call(CREATE, request)).session_id
        if not await self._record(name, number):
            raise StoreUnavailable(f"session {name} ended before it began")
        return name, number

    async def _record(self, name: str, number: int) -> bool:
        """Write the record that says that a session lives; False where it does not."""
        put = session_record(self._layout, name, number)
        answer = await self._shard.write(pb.WriteRequest(puts=[put]))
        return bool(answer.puts[0].status == pb.OK)

    async def end(self, name: str, number: int) -> None:
        """Delete a session's keys, then the session."""
        await self._delete_keys({name})
        request = pb.CloseSessionRequest(shard=self._shard.number, session_id=number)
        try:
            await self._shard.call(CLOSE, request)
        except StoreUnavailable as error:
            if not str(error).endswith(NO_SESSION):
                raise

    async def sweep(self) -> None:
        """Delete the keys of sessions that are gone."""
        found = await self._shard.read([pb.GetRequest(key=self._layout.head, include_value=True)])
        owners = self._layout.head_of(found[0])[0].owners
        sessions = sorted(set(owners.values()))
        if not sessions:
            return
        gets = [pb.GetRequest(key=self._layout.session(name)) for name in sessions]
        gone = {
            name
            for name, looked in zip(sessions, await self._shard.read(gets), strict=True)
            if looked.status == pb.KEY_NOT_FOUND
        }
        if gone:
            await self._delete_keys(gone)

    async def _delete_keys(self, sessions: Iterable[str]) -> None:
        def plan(seen: HeadSnapshot) -> tuple[Writes, None]:
            owned = [key for key, owner in seen.head.owners.items() if owner in sessions]
            return Writes(deletes=owned), None

        await self._committer.commit([], plan)
