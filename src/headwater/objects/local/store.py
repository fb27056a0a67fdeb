"""Objects as files of one directory, durable before a put returns.

An object's bytes are written to a file of their own under ``.tmp`` and fsynced, the file is
linked to its key, which never replaces anything, and the key's directory is fsynced. At every
moment a key has no object or the whole one, and a crash leaves at most a temporary file.

Blocking calls run in the executor that the caller passes in, one hop for each operation. What
the page cache has of an object that was read before is copied from there at once: a hop takes as
long as to copy 2 MB, and its thread takes the interpreter from whoever answers consumers. Only a
local file system knows what it has, which is tried at start: to open a file on another may take
long, and is never done on the event loop.
Descriptors of objects are not kept: to open a file takes 3 µs, a hop to the executor far more,
and an open descriptor would hold the space of an object that another process deleted.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Final, TypeVar

from headwater.directories import make_durable
from headwater.errors import ConfigurationError, ObjectNotFound, ObjectStoreUnavailable, StoreError
from headwater.objects.local.disk_errors import advice, disk_error
from headwater.objects.local.durable import Descriptor, DurableDirectories
from headwater.objects.local.growing_file import MODE, GrowingFile
from headwater.objects.local.temporary import TemporaryArea
from headwater.objects.names import check_key, check_range, directory_of, is_key
from headwater.objects.store import Buffer, GrowingObject, ObjectInfo, Traffic

T = TypeVar("T")

LINK_ATTEMPTS = 10
"""How often a put meets its directory being pruned before it gives up."""
NO_WAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)
"""None where Python was built for an older C library."""
AT_ONCE_BYTES = 4 << 20
"""Up to so much is read at once: to copy it takes half a millisecond."""
KNOWN_KEYS = 1024
"""So many objects that were read lately: to open one of them does not wait for the disk."""


class LocalDirectory:
    """An ``ObjectStore`` in a directory that many processes of one host may share.

    A put that is cancelled goes on in its thread: its parts must stay unchanged all the same.
    """

    def __init__(self, path: Path | str, *, executor: Executor, id: str = "local") -> None:  # noqa: A002
        """Create the directory where it is missing and prove that it can be written durably.

        Raises ``ConfigurationError``.
        """
        self.id = id
        self.traffic = Traffic()
        self._executor = executor
        self._known: OrderedDict[str, None] = OrderedDict()
        self._root = Path(path).absolute()
        try:
            make_durable(self._root)
            self._directories = DurableDirectories(self._root)
            self._temporary = TemporaryArea(self._root)
            self._at_once = _probe(self._temporary)
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
        waiting: list[ObjectInfo | str] = [directory_of(prefix)]
        while waiting:
            match waiting.pop():
                case ObjectInfo() as info:
                    yield info
                case str() as directory:
                    self.traffic.lists += 1
                    found = await self._run(
                        lambda directory=directory: self._scan(directory, prefix),  # type: ignore[misc]
                        f"listing {prefix}",
                    )
                    waiting.extend(reversed(found))

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
        if self._at_once and length and length <= AT_ONCE_BYTES and key in self._known:
            await asyncio.sleep(0)  # who reads much in a row lets others go first
            data = self._read_at_once(key, start, length)
        if data is None:
            data = await self._run(lambda: self._read(key, start, length), f"reading {key}")
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > KNOWN_KEYS:
            self._known.popitem(last=False)
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
                    self._directories.forget(directory)  # pruned since it was opened
                    continue
                except FileExistsError:
                    # A repeat. Whoever wrote it first may not have come to its fsync.
                    if not (self._root / key).is_file():
                        raise
                break
            else:
                raise ObjectStoreUnavailable(f"{self._root / directory} is removed again and again")
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
                self._directories.forget(directory)  # pruned since it was opened
                continue
            self._directories.sync(directory, target)
            return file
        raise ObjectStoreUnavailable(f"{self._root / directory} is removed again and again")

    def _read_at_once(self, key: str, start: int, length: int) -> bytearray | None:
        """What is in the page cache, or None; whatever is wrong, ``_read`` finds and tells."""
        try:
            # A new access time would make the kernel wait for the file system's journal.
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
                        f"{path} has {size} bytes, wanted are {start} to {end}"
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
        # Empty directories go too. A put that races with this meets ENOENT at its link and
        # creates the directory again; where its link came first, rmdir refuses.
        for parent in path.parents:
            if parent == self._root:
                return
            try:
                parent.rmdir()
            except OSError:
                return

    def _scan(self, directory: str, prefix: str) -> Sequence[ObjectInfo | str]:
        """The objects and directories in one directory that may match, in key order."""
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
        # A directory sorts by its name and the slash, as the keys in it do.
        found.sort(key=lambda pair: pair[0])
        return [entry for _, entry in found]


def _info(key: str, entry: "os.DirEntry[str]") -> ObjectInfo | None:
    try:
        status = entry.stat()
    except FileNotFoundError:
        return None  # deleted while the directory was read
    return ObjectInfo(key, status.st_size, status.st_mtime_ns // 1_000_000)


def _read_cached(number: int, start: int, length: int) -> bytearray | None:
    """So much of an open file, if all of it can be had without waiting for the disk."""
    if NO_WAIT is None:
        return None
    try:
        # What is not there is missing at its end: the whole need not be made room for in vain.
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
                raise ObjectStoreUnavailable(f"{path} was cut while it was read")
            done += count


def _probe(temporary: TemporaryArea) -> bool:
    """Do once what every put does, so that an unfit file system is known at start.

    Returns whether it can tell what it has in memory.
    """
    directory = temporary.directory.number
    name = temporary.write([b"probe"])
    os.link(name, "probe", src_dir_fd=directory, dst_dir_fd=directory)
    os.fsync(directory)
    file = Descriptor(os.open("probe", os.O_RDONLY, dir_fd=directory))
    known = _read_cached(file.number, 0, len(b"probe")) is not None
    temporary.remove(name)
    temporary.remove("probe")
    return known
