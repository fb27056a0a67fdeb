"""Streaming writes of new objects without an event loop, for Spark tasks.

A Spark task writes files of hundreds of megabytes. As in ``headwater.objects``, an object exists
completely or not at all, and is durable once it exists.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

import pyarrow as pa

from headwater.directories import make_durable
from headwater.errors import ConfigurationError, StoreError
from headwater.objects.local.disk_errors import disk_error
from headwater.objects.local.durable_directories import DurableDirectories
from headwater.objects.local.temporary_files import TemporaryArea
from headwater.objects.object_keys import check_key

PART_BYTES: Final = 8 * 2**20
"""Part size of a multipart upload; a smaller object is a single PUT."""

RETRIES: Final = 5


@contextlib.contextmanager
def create_object(objects_url: str, key: str) -> Iterator[Any]:
    """Create an object from the bytes that the block writes to a pyarrow file.

    The object exists when the block ends without an error. Raises ``StoreUnavailable``,
    ``StorageFull``, or ``ConfigurationError`` for a URL that is neither ``file:///`` nor ``s3://``.
    """
    check_key(key)
    parts = urlsplit(objects_url)
    match parts.scheme:
        case "file":
            output = _local(Path(unquote(parts.path)), key)
        case "s3":
            output = _remote(parts, key)
        case _:
            raise ConfigurationError(
                f"{objects_url!r}: Spark can write objects in file:/// and s3:// only"
            )
    with output as sink:
        yield sink


def store_id(objects_url: str) -> str:
    """The ``ObjectStore.id`` of the store, as in index entries."""
    return "local" if urlsplit(objects_url).scheme == "file" else "s3"


@contextlib.contextmanager
def _local(root: Path, key: str) -> Iterator[Any]:
    """As ``LocalDirectory.put``, for bytes that arrive in parts."""
    name = "file"
    try:
        make_durable(root)
        area = TemporaryArea(root)
        try:
            with pa.OSFile(str(area.path / name), "wb") as sink:
                yield sink
            _publish(root, area, name, key)
        finally:
            area.close()
    except OSError as error:
        raise disk_error(error, f"writing {key}", root) from error


def _publish(root: Path, area: TemporaryArea, name: str, key: str) -> None:
    number = os.open(name, os.O_RDONLY, dir_fd=area.directory.number)
    try:
        os.fdatasync(number)
    finally:
        os.close(number)
    directories = DurableDirectories(root)
    folder, _, last = key.rpartition("/")
    target = directories.open(folder)
    os.link(name, last, src_dir_fd=area.directory.number, dst_dir_fd=target.number)
    directories.sync(folder, target)


@contextlib.contextmanager
def _remote(parts: SplitResult, key: str) -> Iterator[Any]:
    import obstore
    from obstore.exceptions import BaseError

    from headwater.objects.remote.errors import remote_error
    from headwater.objects.remote.s3 import open_bucket

    try:
        bucket = open_bucket(parts, retries=RETRIES)
        # If the writer is not closed, no object exists, and the store discards the parts.
        writer = obstore.open_writer(bucket, key, buffer_size=PART_BYTES, max_concurrency=2)
        with pa.PythonFile(_Written(writer), "w") as sink:
            yield sink
        writer.close()
    except (BaseError, FileNotFoundError) as error:
        failure: StoreError = remote_error(error, f"writing {key}", f"s3://{parts.netloc}")
        raise failure from error


class _Written:
    """An obstore writer as a file for pyarrow, whose ``close`` must not finish the object."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")  # pyarrow's buffers have signed bytes
        self._writer.write(view)
        return len(view)

    def flush(self) -> None:
        """Nothing to do: parts are sent when they are full."""

    def close(self) -> None:
        self.closed = True
