"""Ranged reads of objects without an event loop, for Spark tasks."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from headwater.errors import ConfigurationError, ObjectNotFound, StoreUnavailable
from headwater.objects.local.disk_errors import disk_error
from headwater.pipeline.read_ahead import Range, ReadAhead

RETRIES = 5


class ObjectReads(Protocol):
    """Reads parts of objects."""

    def read(self, key: str, start: int, length: int) -> bytearray:
        """Read exactly ``length`` bytes from ``start`` into a new buffer.

        Raises ``ObjectNotFound``, or ``StoreUnavailable`` if the object is shorter or the store
        does not answer.
        """
        ...

    def expect(self, ranges: Iterable[Range]) -> None:
        """Announce the next reads in order, so that a remote store can prefetch them."""
        ...

    def close(self) -> None: ...


def open_reads(objects_url: str) -> ObjectReads:
    """Open the object store for reads.

    Raises ``ConfigurationError`` for a store that only its broker can read.
    """
    parts = urlsplit(objects_url)
    match parts.scheme:
        case "file":
            return DirectoryReads(Path(unquote(parts.path)))
        case "s3":
            return BucketReads(parts)
        case _:
            raise ConfigurationError(
                f"{objects_url!r}: Spark can read objects in file:/// and s3:// only"
            )


class DirectoryReads:
    """Objects in a directory. The last file that was read stays open."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._key = ""
        self._file = -1

    def read(self, key: str, start: int, length: int) -> bytearray:
        try:
            if key != self._key:
                self.close()
                self._file = os.open(self._root / key, os.O_RDONLY)
                self._key = key
            data = bytearray(length)
            view, done = memoryview(data), 0
            while done < length and (count := os.preadv(self._file, [view[done:]], start + done)):
                done += count
        except FileNotFoundError:
            raise ObjectNotFound(f"reading {key} in {self._root}: no such object") from None
        except OSError as error:
            raise disk_error(error, f"reading {key}", self._root) from error
        if done < length:
            raise StoreUnavailable(
                f"{key} ends at byte {start + done}, and {start + length} were expected"
            )
        return data

    def expect(self, ranges: Iterable[Range]) -> None:
        """Nothing to do: the operating system reads ahead."""

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file, self._key = -1, ""


class BucketReads:
    """Objects in a bucket, through obstore, with prefetch."""

    def __init__(self, url: SplitResult) -> None:
        from headwater.objects.remote.s3 import open_bucket

        self._where = f"s3://{url.netloc}"
        self._bucket = open_bucket(url, retries=RETRIES)
        self._ahead = ReadAhead(self._get)

    def read(self, key: str, start: int, length: int) -> bytearray:
        return self._ahead.take((key, start, length))

    def expect(self, ranges: Iterable[Range]) -> None:
        self._ahead.expect(ranges)

    def close(self) -> None:
        """Stop the prefetch. Connections close with the process."""
        self._ahead.close()

    def _get(self, key: str, start: int, length: int) -> bytearray:
        import obstore
        from obstore.exceptions import BaseError

        from headwater.objects.remote.errors import remote_error

        try:
            found = bytearray(obstore.get_range(self._bucket, key, start=start, length=length))
        except (BaseError, FileNotFoundError) as error:
            raise remote_error(error, f"reading {key}", self._where) from error
        if len(found) < length:
            raise StoreUnavailable(
                f"{key} ends at byte {start + len(found)}, and {start + length} were expected"
            )
        return found
