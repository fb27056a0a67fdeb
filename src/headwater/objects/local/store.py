"""Objects as files in a directory, durable before a put returns.

A put writes the object's bytes to a temporary file and fsyncs it, links the file to its key, which
never replaces a file, and fsyncs the key's directory. A key therefore always has either no object
or the whole one, and a crash leaves at most a temporary file.

Blocking calls run in the executor that the caller passes in, one hop per operation. A read of an
object that was read recently is first tried on the event loop, from the page cache only: a hop to
the executor takes as long as copying 2 MB, and its thread competes for the GIL with the thread
that answers consumers. This needs a local file system that supports ``RWF_NOWAIT``, which is
tested at start-up; on a network file system even opening a file may block for long.

Descriptors of objects are not kept open. Opening a file takes 3 µs, and an open descriptor would
keep the disk space of an object that another process has deleted.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Final, TypeVar

from cachetools import LRUCache

from headwater.directories import make_durable
from headwater.errors import ConfigurationError, ObjectNotFound, ObjectStoreUnavailable, StoreError
from headwater.objects.local.disk_errors import advice, disk_error
from headwater.objects.local.durable_directories import Descriptor, DurableDirectories
from headwater.objects.local.growing_file import MODE, GrowingFile
from headwater.objects.local.temporary_files import TemporaryArea
from headwater.objects.object_keys import check_key, check_range, directory_of, is_key
from headwater.objects.store import Buffer, GrowingObject, ObjectInfo, Traffic

T = TypeVar("T")

LINK_ATTEMPTS = 10
"""Attempts of a put whose directory another process deletes, before it fails."""
NO_WAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)
"""None if Python was built for an older C library."""
MAX_CACHED_READ_BYTES = 4 << 20
"""Largest read on the event loop; copying this much takes half a millisecond."""
MAX_RECENT_KEYS = 1024
"""Number of recently read objects: opening one of them does not wait for the disk."""


class LocalDirectory:
    """An ``ObjectStore`` in a directory, which several processes on one host may share.

    A cancelled put continues in its thread, so that its parts must not be changed.
    """

    def __init__(self, path: Path | str, *, executor: Executor, id: str = "local") -> None:  # noqa: A002
        """Create the directory if it is missing, and test that it can be written durably.

        Raises ``ConfigurationError``.
        """
        self.id = id
        self.traffic = Traffic()
        self._executor = executor
        self._recent_keys: LRUCache[str, None] = LRUCache(MAX_RECENT_KEYS)
        self._root = Path(path).absolute()
        try:
            make_durable(self._root)
            self._directories = DurableDirectories(self._root)
            self._temporary = TemporaryArea(self._root)
            self._reads_page_cache = _probe(self._temporary)
        except OSError as error:
            raise ConfigurationError(
                f"cannot store objects in {self._root}: {error.strerror}; {advice(error)}"
            ) from error

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        check_key(key)
        self.traffic.puts += 1
        await self._run(lambda: self._put(key, parts), f"writing {key}")
        self.traffic.bytes_written += sum(memoryview(part).nbytes for part in parts)

    def grow(self, key: str) -> GrowingObject:
        check_key(key)
        return GrowingFile(
            key, run=self._run, create=lambda: self._create(key), appended=self._count_append
        )

    def _count_append(self, length: int) -> None:
        self.traffic.puts += 1
        self.traffic.bytes_written += length

    async def get(self, key: str) -> bytearray:
        return await self._get(key, 0, None)

    async def get_range(self, key: str, start: int, length: int) -> bytearray:
        check_range(start, length)
        return await self._get(key, start, length)

    async def delete(self, key: str) -> None:
        check_key(key)
        self.traffic.deletes += 1
        await self._run(lambda: self._delete(key), f"deleting {key}")

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        pending: list[ObjectInfo | str] = [directory_of(prefix)]
        while pending:
            match pending.pop():
                case ObjectInfo() as info:
                    yield info
                case str() as directory:
                    self.traffic.lists += 1
                    found = await self._run(
                        lambda directory=directory: self._scan(directory, prefix),  # type: ignore[misc]
                        f"listing {prefix}",
                    )
                    pending.extend(reversed(found))

    async def close(self) -> None:
        self._directories.close()
        await self._run(self._temporary.close, "closing")

    async def _run(self, call: Callable[[], T], doing: str) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, call)
        except OSError as error:
            self.traffic.errors += 1
            raise disk_error(error, doing, self._root) from error
        except ObjectNotFound:
            raise
        except StoreError:
            self.traffic.errors += 1
            raise

    async def _get(self, key: str, start: int, length: int | None) -> bytearray:
        check_key(key)
        self.traffic.gets += 1
        data: bytearray | None = None
        if (
            self._reads_page_cache
            and length
            and length <= MAX_CACHED_READ_BYTES
            and key in self._recent_keys
        ):
            await asyncio.sleep(0)  # a caller that reads in a loop must not starve other tasks
            data = self._read_page_cache(key, start, length)
        if data is None:
            data = await self._run(lambda: self._read(key, start, length), f"reading {key}")
        self._recent_keys[key] = None
        self.traffic.bytes_read += len(data)
        return data

    def _put(self, key: str, parts: Sequence[Buffer]) -> None:
        directory, _, name = key.rpartition("/")
        temporary = self._temporary.write(parts)
        try:
            for _ in range(LINK_ATTEMPTS):
                try:
                    target = self._directories.open(directory)
                    os.link(
                        temporary,
                        name,
                        src_dir_fd=self._temporary.directory.number,
                        dst_dir_fd=target.number,
                    )
                except FileNotFoundError:
                    self._directories.forget(directory)  # deleted since it was opened
                    continue
                except FileExistsError:
                    # A repeated put. The first one may not have finished its fsync.
                    if not (self._root / key).is_file():
                        raise
                break
            else:
                raise ObjectStoreUnavailable(
                    f"another process deletes {self._root / directory} repeatedly"
                )
        finally:
            self._temporary.remove(temporary)
        self._directories.sync(directory, target)

    def _create(self, key: str) -> Descriptor:
        """An empty file whose name is durable."""
        directory, _, name = key.rpartition("/")
        for _ in range(LINK_ATTEMPTS):
            target = self._directories.open(directory)
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                file = Descriptor(os.open(name, flags, MODE, dir_fd=target.number))
            except FileNotFoundError:
                self._directories.forget(directory)  # deleted since it was opened
                continue
            self._directories.sync(directory, target)
            return file
        raise ObjectStoreUnavailable(f"another process deletes {self._root / directory} repeatedly")

    def _read_page_cache(self, key: str, start: int, length: int) -> bytearray | None:
        """Read from the page cache; None on any failure, which ``_read`` then reports."""
        try:
            # Updating the access time could make the kernel wait for the file system's journal.
            number = os.open(f"{self._root}/{key}", os.O_RDONLY | os.O_NOATIME)
        except OSError:
            return None
        try:
            return _read_cached(number, start, length)
        finally:
            os.close(number)

    def _read(self, key: str, start: int, length: int | None) -> bytearray:
        path = self._root / key
        try:
            with path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                end = size if length is None else start + length
                if end > size:
                    raise ObjectStoreUnavailable(
                        f"{path} has {size} bytes; bytes {start} to {end} were requested"
                    )
                data = bytearray(end - start)
                _read_into(file.fileno(), data, start, path)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ObjectNotFound(f"no object {key} in {self._root}") from None
        return data

    def _delete(self, key: str) -> None:
        path = self._root / key
        try:
            path.unlink(missing_ok=True)
        except (NotADirectoryError, IsADirectoryError):
            return
        # Delete empty directories too. A concurrent put gets ENOENT from its link and creates the
        # directory again; if its link came first, rmdir fails.
        for parent in path.parents:
            if parent == self._root:
                return
            try:
                parent.rmdir()
            except OSError:
                return

    def _scan(self, directory: str, prefix: str) -> Sequence[ObjectInfo | str]:
        """The objects and subdirectories of a directory that match the prefix, in key order."""
        found: list[tuple[str, ObjectInfo | str]] = []
        try:
            with os.scandir(self._root / directory) as entries:
                for entry in entries:
                    key = f"{directory}/{entry.name}" if directory else entry.name
                    if not key.startswith(prefix) or not is_key(key):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        found.append((f"{key}/", key))
                    elif info := _info(key, entry):
                        found.append((key, info))
        except (FileNotFoundError, NotADirectoryError):
            return []
        # Sort directories by name and slash, as the keys in them sort.
        found.sort(key=lambda pair: pair[0])
        return [entry for _, entry in found]


def _info(key: str, entry: "os.DirEntry[str]") -> ObjectInfo | None:
    try:
        status = entry.stat()
    except FileNotFoundError:
        return None  # deleted while the directory was read
    return ObjectInfo(key, status.st_size, status.st_mtime_ns // 1_000_000)


def _read_cached(number: int, start: int, length: int) -> bytearray | None:
    """A range of an open file if all of it is in the page cache, else None."""
    if NO_WAIT is None:
        return None
    try:
        # Try the last byte first, before a buffer for the whole range is allocated.
        if os.preadv(number, [bytearray(1)], start + length - 1, NO_WAIT) != 1:
            return None
        data = bytearray(length)
        return data if os.preadv(number, [data], start, NO_WAIT) == length else None
    except OSError:
        return None


def _read_into(number: int, data: bytearray, start: int, path: Path) -> None:
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            count = os.preadv(number, [view[done:]], start + done)
            if count == 0:
                raise ObjectStoreUnavailable(f"{path} was truncated while it was read")
            done += count


def _probe(temporary: TemporaryArea) -> bool:
    """Do all steps of a put, so that an unsuitable file system is detected at start-up.

    Returns whether the file system can report what is in the page cache.
    """
    directory = temporary.directory.number
    name = temporary.write([b"probe"])
    os.link(name, "probe", src_dir_fd=directory, dst_dir_fd=directory)
    os.fsync(directory)
    file = Descriptor(os.open("probe", os.O_RDONLY, dir_fd=directory))
    cached = _read_cached(file.number, 0, len(b"probe")) is not None
    temporary.remove(name)
    temporary.remove("probe")
    return cached
