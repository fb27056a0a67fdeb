"""Forgetting old revisions: etcd keeps every one until it is told to compact.

Every process wakes once per interval and tries to be the one that compacts: whoever first raises
the version of one key is, and forgets what was current an interval ago. So watches can always be
given the changes of one interval, and etcd is told once per interval however many processes
there are. The key stands beside the data, where no scan or watch sees it.
"""

import asyncio
import logging

from headwater.errors import StoreError
from headwater.meta.etcd.members import Members
from headwater.meta.etcd.methods import COMPACT, TXN
from headwater.meta.etcd.rpc import etcd_pb2 as pb

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 60.0
"""Brokers write some megabytes a second: this keeps the history far below etcd's 2 GiB."""


class Compactor:
    """Compacts for as long as ``run`` runs, in one process of all."""

    def __init__(self, members: Members, prefix: str) -> None:
        self._members = members
        self._key = f"{prefix}!compaction".encode()
        self._turn = 0
        self._seen = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            try:
                await self.take_turn()
            except StoreError as error:
                log.warning("old metadata revisions are not compacted: %s", error)

    async def take_turn(self) -> None:
        """Compact to the revision seen at the last turn, unless another process does."""
        seen, turn = self._seen, self._turn
        key = pb.Compare(target=pb.Compare.VERSION, key=self._key, version=turn)
        put = pb.RequestOp(request_put=pb.PutRequest(key=self._key, value=b"%d" % seen))
        look = pb.RequestOp(request_range=pb.RangeRequest(key=self._key))
        answer = await self._members.write(
            TXN, pb.TxnRequest(compare=[key], success=[put], failure=[look])
        )
        self._seen = answer.header.revision
        if not answer.succeeded:
            found = answer.responses[0].response_range.kvs
            self._turn = found[0].version if found else 0
            return
        self._turn = turn + 1
        if seen:
            await self._members.read(COMPACT, pb.CompactionRequest(revision=seen))
            log.info("compacted etcd up to revision %d", seen)
