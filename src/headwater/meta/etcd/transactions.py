"""Builds etcd's messages for the reads, comparisons and writes of a transaction.

etcd refuses a transaction that both puts and deletes a key. A range delete is therefore split
around the keys that the same transaction puts.
"""

from collections.abc import Iterator, Mapping, Sequence

from headwater.meta.etcd.rpc import etcd_pb2 as pb
from headwater.meta.store import Entry, Values, Writes

VALUE_BYTES = 2**20
"""Below etcd's default limit of 1.5 MiB per request (``--max-request-bytes``)."""


class EtcdKeyspace:
    """Converts between a store's keys and etcd's keys, which begin with the store's prefix."""

    def __init__(self, prefix: str) -> None:
        self._root = f"{prefix}/".encode()

    def path(self, key: str) -> bytes:
        return self._root + key.encode()

    def entry(self, stored: pb.KeyValue) -> Entry:
        return Entry(self.name(stored.key), stored.value, stored.mod_revision)

    def name(self, path: bytes) -> str:
        return path[len(self._root) :].decode()

    def prefix(self, prefix: str) -> tuple[bytes, bytes]:
        """The range of all keys that begin with ``prefix``, which may be empty."""
        start = self.path(prefix)
        return start, start[:-1] + bytes([start[-1] + 1])


def read_operations(keys: EtcdKeyspace, wanted: Sequence[str]) -> list[pb.RequestOp]:
    """Operations that read every key; in one transaction they read the same revision."""
    return [
        pb.RequestOp(request_range=pb.RangeRequest(key=keys.path(key), limit=1)) for key in wanted
    ]


def values_read(keys: EtcdKeyspace, wanted: Sequence[str], answer: pb.TxnResponse) -> Values:
    """The answers to ``read_operations``, which came first in the transaction."""
    values: dict[str, Entry | None] = {}
    for key, response in zip(wanted, answer.responses[: len(wanted)], strict=True):
        stored = response.response_range.kvs
        values[key] = keys.entry(stored[0]) if stored else None
    return values


def unchanged(keys: EtcdKeyspace, values: Values) -> list[pb.Compare]:
    """Comparisons that fail if any key has changed since it was read."""
    return [
        pb.Compare(
            target=pb.Compare.MOD,
            key=keys.path(key),
            mod_revision=0 if entry is None else entry.revision,
        )
        for key, entry in values.items()
    ]


def write_operations(
    keys: EtcdKeyspace, writes: Writes, leases: Mapping[str, int]
) -> list[pb.RequestOp]:
    """Deletes and puts; ``leases`` names the lease of each ephemeral key."""
    operations = [
        pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=keys.path(key)))
        for key in dict.fromkeys(writes.deletes)
        if key not in writes.puts
    ]
    for start, end in writes.range_deletes:
        operations.extend(
            pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=first, range_end=after))
            for first, after in _around(keys, start, end, writes.puts)
        )
    operations.extend(
        pb.RequestOp(
            request_put=pb.PutRequest(key=keys.path(key), value=value, lease=leases.get(key, 0))
        )
        for key, value in writes.puts.items()
    )
    return operations


def _around(
    keys: EtcdKeyspace, start: str, end: str, kept: Mapping[str, bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """The ranges between the kept keys."""
    first = keys.path(start)
    for key in sorted(key for key in kept if start <= key < end):
        if first < keys.path(key):
            yield first, keys.path(key)
        first = keys.path(key) + b"\0"
    if first < keys.path(end):
        yield first, keys.path(end)
