"""Objects in a bucket, through obstore.

obstore's own retries are switched off, because ``RetryingObjects`` retries for all backends.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore as Bucket

from headwater.errors import ObjectNotFound, ObjectStoreUnavailable
from headwater.objects.health import StoreHealth
from headwater.objects.object_keys import check_key, check_range, directory_of
from headwater.objects.remote.errors import remote_error
from headwater.objects.retrying import TransientFailure
from headwater.objects.store import Buffer, ObjectInfo, Traffic

LIST_CHUNK = 1_000
MAX_PARTS = 256
"""If an object has more parts than this, they are joined: obstore takes the GIL for each."""
JOINED_BYTES = 2**20
"""Bytes joined between two yields to the event loop."""
MAX_REQUESTS_IN_FLIGHT = 64
"""Default bound on requests in flight."""


class RemoteObjects:
    """An ``ObjectStore`` over one of obstore's buckets.

    ``where`` names the bucket in error messages, and ``access`` says what to check if access is
    denied. At most ``concurrency`` requests are in flight; further ones wait. ``health`` records
    every request, and may refuse it with ``StoreSuspended``. ``faster_bucket`` is called after the
    first successful put and may return a better configured bucket for all later requests. If it
    raises ``TransientFailure``, it is called again after a later put.
    """

    def __init__(
        self,
        bucket: Bucket,
        *,
        id: str,  # noqa: A002
        where: str,
        access: str,
        concurrency: int = MAX_REQUESTS_IN_FLIGHT,
        health: StoreHealth | None = None,
        faster_bucket: Callable[[], Awaitable[Bucket | None]] | None = None,
    ) -> None:
        self.id = id
        self.traffic = Traffic()
        self._bucket = bucket
        self._faster_bucket = faster_bucket
        self._where = where
        self._access = access
        self._health = health or StoreHealth()
        self._slots = asyncio.Semaphore(concurrency)

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        check_key(key)
        self.traffic.puts += 1
        size = sum(map(len, parts))
        async with self._request(f"writing {key}", size):
            await self._put(key, parts if len(parts) <= MAX_PARTS else await _joined(parts))
        self.traffic.bytes_written += size
        if (faster_bucket := self._faster_bucket) is not None:
            self._faster_bucket = None  # concurrent puts must not call it too
            try:
                async with self._slots:
                    self._bucket = await faster_bucket() or self._bucket
            except TransientFailure:
                self._faster_bucket = faster_bucket

    def grow(self, key: str) -> None:
        """Always None: objects cannot grow."""

    async def get(self, key: str) -> bytearray:
        check_key(key)
        self.traffic.gets += 1
        async with self._request(f"reading {key}"):
            answer = await obstore.get_async(self._bucket, key)
            data = bytearray(await answer.bytes_async())
        self.traffic.bytes_read += len(data)
        return data

    async def get_range(self, key: str, start: int, length: int) -> bytearray:
        check_key(key)
        check_range(start, length)
        self.traffic.gets += 1
        async with self._request(f"reading {key}", length):
            if length == 0:  # obstore refuses an empty range
                size = (await obstore.head_async(self._bucket, key))["size"]
                data, short = bytearray(), size < start
            else:
                found = await obstore.get_range_async(self._bucket, key, start=start, length=length)
                data, short = bytearray(found), len(found) < length
        if short:
            self.traffic.errors += 1
            raise ObjectStoreUnavailable(
                f"{key} in {self._where} has fewer than the {start + length} bytes requested"
            )
        self.traffic.bytes_read += len(data)
        return data

    async def delete(self, key: str) -> None:
        check_key(key)
        self.traffic.deletes += 1
        try:
            async with self._request(f"deleting {key}"):
                await obstore.delete_async(self._bucket, key)
        except ObjectNotFound:
            return

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        # obstore lists by whole segments only; the rest of the prefix is compared here.
        chunks = obstore.list(self._bucket, directory_of(prefix) or None, chunk_size=LIST_CHUNK)
        pages = 0
        while True:
            async with self._request(f"listing {prefix}"):
                chunk = await anext(chunks, None)
            # The last page says that it is the last; an empty list takes one request.
            if chunk is not None or not pages:
                self.traffic.lists += 1
                pages += 1
            if chunk is None:
                return
            for meta in chunk:
                if meta["path"].startswith(prefix):
                    modified_ms = int(meta["last_modified"].timestamp() * 1_000)
                    yield ObjectInfo(meta["path"], meta["size"], modified_ms)

    async def close(self) -> None:
        """Does nothing: connections close with the process."""

    async def _put(self, key: str, parts: Sequence[Buffer]) -> None:
        try:
            await obstore.put_async(self._bucket, key, parts, mode="create", use_multipart=False)
        except NotImplementedError as error:
            raise ObjectStoreUnavailable(
                f"writing {key} in {self._where} failed: conditional puts are needed, "
                "but AWS_CONDITIONAL_PUT disables them; unset it"
            ) from error
        except AlreadyExistsError:
            # Also the answer while another put of this key is running, which may still fail.
            try:
                await obstore.head_async(self._bucket, key)
            except FileNotFoundError:
                raise TransientFailure(
                    f"writing {key} in {self._where} conflicted with another write"
                ) from None
        except FileNotFoundError as error:
            failure = remote_error(error, f"writing {key}", self._where, self._access)
            if isinstance(failure, ObjectNotFound):
                failure = ObjectStoreUnavailable(
                    f"writing {key} in {self._where} failed: the bucket does not exist; "
                    "create it, or correct --objects"
                )
            raise failure from error

    @asynccontextmanager
    async def _request(self, doing: str, size: int = 0) -> AsyncIterator[None]:
        try:
            async with self._slots:
                with self._observed(size):
                    yield
        except (BaseError, FileNotFoundError) as error:
            failure = remote_error(error, doing, self._where, self._access)
            if not isinstance(failure, ObjectNotFound):
                self.traffic.errors += 1
            raise failure from error
        except ObjectStoreUnavailable:
            self.traffic.errors += 1
            raise

    @contextmanager
    def _observed(self, size: int) -> Iterator[None]:
        """Ask ``health`` whether a request may be sent, and report its outcome to it."""
        now = asyncio.get_running_loop().time
        request = self._health.begin(now(), size)
        try:
            yield
        except (GeneratorExit, asyncio.CancelledError):
            self._health.forget(request)
            raise
        except FileNotFoundError:
            self._health.end(request, now(), failed=False)
            raise
        except BaseException:
            self._health.end(request, now(), failed=True)
            raise
        else:
            self._health.end(request, now(), failed=False)


async def _joined(parts: Sequence[Buffer]) -> list[Buffer]:
    """Join the parts into fewer, larger ones."""
    joined: list[Buffer] = []
    first = size = 0
    for number, part in enumerate(parts, 1):
        size += len(part)
        if size >= JOINED_BYTES or number == len(parts):
            joined.append(b"".join(parts[first:number]))
            first, size = number, 0
            await asyncio.sleep(0)
    return joined
