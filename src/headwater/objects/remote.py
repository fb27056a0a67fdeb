"""Objects in a bucket, through obstore; only here and in the modules that configure it.

obstore's own retries are off: ``RetryingObjects`` does them for every backend alike.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import ObjectStore as Bucket

from headwater.errors import ObjectNotFound, StoreUnavailable
from headwater.objects.names import check_key, check_range, directory_of
from headwater.objects.remote_errors import remote_error
from headwater.objects.retrying import TransientFailure
from headwater.objects.store import Buffer, ObjectInfo, Traffic

LIST_CHUNK = 1_000


class RemoteObjects:
    """An ``ObjectStore`` over one of obstore's buckets.

    ``where`` is the bucket's name in error texts. At most ``concurrency`` requests are under
    way at once; the others wait their turn.
    """

    def __init__(self, bucket: Bucket, *, id: str, where: str, concurrency: int) -> None:  # noqa: A002
        self.id = id
        self.traffic = Traffic()
        self._bucket = bucket
        self._where = where
        self._turns = asyncio.Semaphore(concurrency)
        self._mode: Literal["create", "overwrite"] = "create"

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        check_key(key)
        self.traffic.puts += 1
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        async with self._request(f"writing {key}"):
            await self._put(key, body)
        self.traffic.bytes_written += len(body)

    def grow(self, key: str) -> None:
        """Objects are written whole."""

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
        async with self._request(f"reading {key}"):
            if length == 0:  # obstore refuses an empty range
                size = (await obstore.head_async(self._bucket, key))["size"]
                data, short = bytearray(), size < start
            else:
                found = await obstore.get_range_async(self._bucket, key, start=start, length=length)
                data, short = bytearray(found), len(found) < length
        if short:
            self.traffic.errors += 1
            raise StoreUnavailable(
                f"{key} in {self._where} is shorter than the {start + length} bytes wanted"
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
        # obstore lists whole segments only; the rest of the prefix is compared here.
        chunks = obstore.list(self._bucket, directory_of(prefix) or None, chunk_size=LIST_CHUNK)
        while True:
            self.traffic.lists += 1
            async with self._request(f"listing {prefix}"):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            for meta in chunk:
                if meta["path"].startswith(prefix):
                    modified_ms = int(meta["last_modified"].timestamp() * 1_000)
                    yield ObjectInfo(meta["path"], meta["size"], modified_ms)

    async def close(self) -> None:
        """Nothing to let go of: connections close with the process."""

    async def _put(self, key: str, body: Buffer) -> None:
        try:
            await obstore.put_async(self._bucket, key, body, mode=self._mode, use_multipart=False)
        except NotImplementedError:
            # This store has no conditional put (AWS_CONDITIONAL_PUT=disabled). Keys are never
            # used for other content, so that a repeat writes the same bytes.
            self._mode = "overwrite"
            await self._put(key, body)
        except AlreadyExistsError:
            # Also the answer while another put of this key is under way and may yet fail.
            try:
                await obstore.head_async(self._bucket, key)
            except FileNotFoundError:
                raise TransientFailure(
                    f"writing {key} in {self._where} met another write of it"
                ) from None
        except FileNotFoundError as error:
            raise StoreUnavailable(
                f"writing {key} in {self._where} failed: the bucket does not exist; "
                "create it, or correct --objects"
            ) from error

    @asynccontextmanager
    async def _request(self, doing: str) -> AsyncIterator[None]:
        try:
            async with self._turns:
                yield
        except (BaseError, FileNotFoundError) as error:
            failure = remote_error(error, doing, self._where)
            if not isinstance(failure, ObjectNotFound):
                self.traffic.errors += 1
            raise failure from error
        except StoreUnavailable:
            self.traffic.errors += 1
            raise
