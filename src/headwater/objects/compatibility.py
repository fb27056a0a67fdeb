"""Tests at start-up whether an object store has the features that the log needs.

Many servers implement only a part of S3's protocol. These features are required:

- A put refuses to replace an existing object.
- Reads and listings return an object as soon as its put has returned.
- A ranged read returns exactly the requested bytes.
- A listing is complete and in key order.
"""

import asyncio
from random import Random

from headwater.errors import ConfigurationError, ObjectNotFound
from headwater.objects.retrying import TransientFailure
from headwater.objects.store import DeletableObjects, ObjectStore

TIMEOUT_SECONDS = 10.0
"""Time limit of the whole test."""
CHECK_PREFIX = "check/"
LEFT_BEHIND_MS = 3_600_000
"""Objects of a test that is older than this were left by a broker that died during its test."""
FIRST, SECOND = b"the first content of this key", b"another content, to be refused"


async def check_compatibility(store: DeletableObjects, where: str, *, random: Random) -> None:
    """Write, read, list and delete some small objects under ``check/``.

    Raises ``ConfigurationError`` if the store lacks a feature, and the store's own ``StoreError``:
    ``TransientFailure`` or ``StoreSuspended`` if it does not answer at the moment.
    """
    folder = f"{CHECK_PREFIX}{random.getrandbits(64):016x}/"
    keys = [f"{folder}{name}" for name in ("a", "b/c", "b0")]
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            missing = await _missing(store, folder, keys)
            for key in [*keys, *await _left_behind(store, keys[0])]:
                await store.delete(key)
    except TimeoutError:
        raise TransientFailure(
            f"{where} took longer than {TIMEOUT_SECONDS:g} s to write and read small objects"
        ) from None
    if missing is not None:
        raise ConfigurationError(
            f"{where} cannot hold a log: {missing}; choose another store, or a newer version of it"
        )


async def _missing(store: ObjectStore, folder: str, keys: list[str]) -> str | None:
    """A description of the first feature that the store lacks, None if it has all."""
    for key in reversed(keys):
        await store.put(key, [FIRST])
    await store.put(keys[0], [SECOND])
    try:
        found = await store.get(keys[0])
        part = await store.get_range(keys[0], 4, 5)
    except ObjectNotFound:
        return "an object was not found right after it was written"
    if found != FIRST:
        return "a conditional put (If-None-Match: *) replaced an existing object"
    if part != FIRST[4:9]:
        return "a ranged read returned other bytes than requested"
    listed = [info.key async for info in store.list(folder)]
    if sorted(listed) != keys:
        return f"a listing had {len(listed)} of {len(keys)} objects right after they were written"
    return None if listed == keys else "a listing was not in key order"


async def _left_behind(store: ObjectStore, own: str) -> list[str]:
    """Objects of earlier tests, by the store's clock; ``own`` is a key of this test."""
    modified = {info.key: info.modified_ms async for info in store.list(CHECK_PREFIX)}
    oldest = modified.get(own, 0) - LEFT_BEHIND_MS
    return [key for key, at in modified.items() if at < oldest]
