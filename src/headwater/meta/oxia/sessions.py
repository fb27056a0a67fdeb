"""Sessions, and the keys that they leave behind.

A session is one of Oxia's sessions with one ephemeral record, which exists while it lives. The keys
of a session are ordinary keys, and the head names the session of each. When the record of a
session is gone, a process deletes its keys in an ordinary commit, so that watches see it in order.
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
"""Oxia's minimum; this process counts the ttl that was requested."""


class OxiaSessions:
    """The sessions of one store."""

    def __init__(self, shard: OxiaShard, keyspace: OxiaKeyspace, committer: OxiaCommitter) -> None:
        self._shard = shard
        self._keyspace = keyspace
        self._committer = committer

    async def open(self, ttl: float) -> tuple[str, int]:
        """Open a session; returns its name and Oxia's id.

        If Oxia's answer is lost, nothing renews the session, and it expires.
        """
        name = uuid4().hex
        request = pb.CreateSessionRequest(
            shard=self._shard.number,
            session_timeout_ms=int(max(ttl, MIN_TTL_SECONDS) * 1000),
            client_identity=name,
        )
        number = (await self._shard.call(CREATE, request)).session_id
        if not await self._record(name, number):
            raise StoreUnavailable(f"session {name} expired while it was opened")
        return name, number

    async def _record(self, name: str, number: int) -> bool:
        """Write the ephemeral record of a session; False if the session has expired."""
        put = session_record(self._keyspace, name, number)
        answer = await self._shard.write(pb.WriteRequest(puts=[put]))
        return bool(answer.puts[0].status == pb.OK)

    async def end(self, name: str, number: int) -> None:
        """Delete the keys of a session, then the session."""
        await self._delete_keys({name})
        request = pb.CloseSessionRequest(shard=self._shard.number, session_id=number)
        try:
            await self._shard.call(CLOSE, request)
        except StoreUnavailable as error:
            if not str(error).endswith(NO_SESSION):
                raise

    async def sweep(self) -> None:
        """Delete the keys of sessions that have ended."""
        found = await self._shard.read([pb.GetRequest(key=self._keyspace.head, include_value=True)])
        owners = self._keyspace.head_of(found[0])[0].owners
        sessions = sorted(set(owners.values()))
        if not sessions:
            return
        gets = [pb.GetRequest(key=self._keyspace.session(name)) for name in sessions]
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
