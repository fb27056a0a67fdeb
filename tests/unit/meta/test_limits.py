"""The limits of each metadata store, on transactions and on inline records."""

from headwater.meta.etcd.address import parse_etcd_address
from headwater.meta.etcd.store import limits_of
from headwater.meta.oxia import committer as oxia
from headwater.meta.postgres import store as postgres
from headwater.meta.sqlite import store as sqlite
from headwater.meta.store import Limits

MIB = 2**20
UNBOUNDED = Limits(operations=None, value_bytes=None, range_keys=None, inline_bytes=256 * MIB)
BATCHED = Limits(operations=1_000, value_bytes=MIB, range_keys=1_000, inline_bytes=256 * MIB)


def test_each_backend_is_given_its_own_limits() -> None:
    etcd = limits_of(parse_etcd_address("etcd://127.0.0.1:2379/prod"))
    assert etcd == Limits(operations=127, value_bytes=MIB, range_keys=None, inline_bytes=64 * MIB)
    assert oxia.LIMITS == BATCHED
    assert sqlite.LIMITS == postgres.LIMITS == UNBOUNDED
