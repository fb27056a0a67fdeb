"""Compacts old revisions, which etcd otherwise keeps for ever.

Once per interval every process tries to increase the version of one key. The process that
succeeds compacts the revisions that are older than the previous interval. There is therefore one
compaction per interval, however many processes there are, and watches can always read the changes
of the last interval. The key is outside the store's prefix, so that no scan or watch returns it.
"""

import asyncio
import logging

from headwater.errors import StoreError
from headwater.meta.etcd.members import EtcdMembers
from headwater.meta.etcd.methods import COMPACT, TXN
from headwater.meta.etcd.rpc import etcd_pb2 as pb

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 60.0
"""At some megabytes per second, the history of a minute stays far below etcd's 2 GiB quota."""


class EtcdCompactor:
    """Keep ``run`` in a task; one process of all compacts in each interval."""

    def __init__(self, members: EtcdMembers, prefix: str) -> None:
        self._members = members
        self._key = f"{prefix}!compaction".encode()
        self._key_version = 0
        self._last_revision = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            try:
                await self.compact_once()
            except StoreError as error:
                log.warning("Could not compact old etcd revisions", extra={"error": error})

    async def compact_once(self) -> None:
        """Compact to the last interval's revision, unless another process compacts this time."""
        revision, version = self._last_revision, self._key_version
        key = pb.Compare(target=pb.Compare.VERSION, key=self._key, version=version)
        put = pb.RequestOp(request_put=pb.PutRequest(key=self._key, value=b"%d" % revision))
        read = pb.RequestOp(request_range=pb.RangeRequest(key=self._key))
        answer = await self._members.write(
            TXN, pb.TxnRequest(compare=[key], success=[put], failure=[read])
        )
        self._last_revision = answer.header.revision
        if not answer.succeeded:
            found = answer.responses[0].response_range.kvs
            self._key_version = found[0].version if found else 0
            return
        self._key_version = version + 1
        if revision:
            await self._members.read(COMPACT, pb.CompactionRequest(revision=revision))
            log.info("Compacted old etcd revisions", extra={"revision": revision})
