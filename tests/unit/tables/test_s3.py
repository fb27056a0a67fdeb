"""The same on a bucket, with the endpoint and credentials that the broker has."""

from pathlib import Path
from urllib.parse import urlsplit

import obstore
import pytest

from headwater.errors import StoreUnavailable
from headwater.objects.remote.s3 import open_bucket
from headwater.tables.commit.changes import Rewrite, append_files, rewrite_files
from headwater.tables.commit.live_files import unreferenced
from headwater.tables.files.object_writer import PART_BYTES, create_object
from headwater.tables.maintenance import delete_orphaned_metadata, expire_snapshots
from headwater.tables.settings import TableSettings
from tests.support.tables.world import NAME, TablesWorld, rows, span
from tests.unit.objects.conftest import s3_credentials, s3_endpoint, s3_url

__all__ = ["s3_credentials", "s3_endpoint", "s3_url"]


def test_a_table_lives_in_a_bucket(tmp_path: Path, s3_url: str) -> None:
    world = TablesWorld(tmp_path, s3_url)
    target = world.target()
    appends = [world.append(0, 0, 5), world.append(0, 5, 9)]
    append_files(target, appends)
    big = world.write(0, 0, 9, attempt="big")
    keys = [one.files[0].key for one in appends]
    rewrite_files(target, [Rewrite(job="big", inputs=keys, files=[big])])
    expire_snapshots(target, TableSettings(keep_snapshots=1, max_snapshots=1), now_ms=0)
    assert rows(target) == span(0, 0, 9)
    table = target.catalog.load_table(NAME)
    assert table.location() == "s3://headwater/some/prefix/tables/id-1"
    assert unreferenced(table, [*keys, big.key], objects_url=s3_url) == set(keys)
    assert delete_orphaned_metadata(target, older_than_ms=-1, now_ms=2**42) == []
    assert rows(target) == span(0, 0, 9)


def test_a_large_object_goes_up_in_parts_and_a_failed_one_leaves_none(s3_url: str) -> None:

    def fail() -> None:
        with create_object(s3_url, "a/failed") as sink:
            sink.write(b"x" * (PART_BYTES + 1))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with create_object(s3_url, "a/large") as sink:
        for _ in range(5):
            sink.write(b"y" * (PART_BYTES // 2))

    bucket = open_bucket(urlsplit(s3_url))
    found = {one["path"]: one["size"] for one in obstore.list(bucket).collect()}
    assert found == {"a/large": PART_BYTES * 5 // 2}


def test_a_bucket_that_does_not_exist_is_a_typed_error(s3_url: str) -> None:
    def write() -> None:
        with create_object(s3_url.replace("s3://headwater", "s3://nowhere"), "a/b") as sink:
            sink.write(b"x")

    with pytest.raises(StoreUnavailable, match="bucket does not exist"):
        write()
