"""Whether a store does what the log is built on, tried out at start.

Many servers speak S3's protocol and leave parts of it out. Each of these is needed:

- a put of a key that exists is refused, so that nothing is ever replaced,
- an object is there for reads and listings as soon as its put returned,
- a ranged read gives exactly its bytes,
- a listing is complete and in the order of keys.
"""

import asyncio
from random import Random

from headwater.errors import ConfigurationError, ObjectNotFound
from headwater.objects.retrying import TransientFailure
from headwater.objects.store import DeletableObjects, ObjectStore

TIMEOUT = 10.0
"""Seconds that the store gets for all of it."""
FOLDER = "check/"
LEFT_BEHIND_MS = 3_600_000
"""Objects of a check that is so much older were left by a broker that died in it."""
FIRST, SECOND = b"the first content of this key", b"another content, to be refused"


async def check_compatibility(store: DeletableObjects, where: str, *, random: Random) -> None:
    """Write, read, list and delete a few small objects below ``check/``.

    Raises ``ConfigurationError`` where the store is not enough, and ``StoreError`` as the store
    does: ``TransientFailure`` or ``StoreSuspended`` where it only does not answer at the moment.
    """
    folder = f"{FOLDER}{random.getrandbits(64):016x}/"
    keys = [f"{folder}{name}" for name in ("a", "b/c", "b0")]
    try:
        async with asyncio.timeout(TIMEOUT):
            missing = await _missing(store, folder, keys)
            for key in [*keys, *await _left_behind(store, keys[0])]:
                await store.delete(key)
    except TimeoutError:
        raise TransientFailure(
            f"{where} took longer than {TIMEOUT:g} s for small objects"
        ) from None
    if missing is not None:
        raise ConfigurationError(
            f"{where} cannot hold a log: {missing}; choose another store, or a newer version of it"
        )


async def _missing(store: ObjectStore, folder: str, keys: list[str]) -> str | None:
    """The first thing that the store lacks, in words."""
    for key in reversed(keys):
        await store.put(key, [FIRST])
    await store.put(keys[0], [SECOND])
    try:
        found = await store.get(keys[0])
        part = await store.get_range(keys[0], 4, 5)
    except ObjectNotFound:
        return "an object was not found right after it was written"
    if found != FIRST:
        return "it replaced an object that a conditional put (If-None-Match: *) was to leave alone"
    if part != FIRST[4:9]:
        return "a ranged read gave other bytes than were asked for"
    listed = [info.key async for info in store.list(folder)]
    if sorted(listed) != keys:
        return f"a listing gave {len(listed)} of {len(keys)} objects right after they were written"
    return None if listed == keys else "a listing was not in the order of keys"


async def _left_behind(store: ObjectStore, own: str) -> list[str]:
    """Objects of checks long before the one of ``own``, by the store's clock."""
    modified = {info.key: info.modified_ms async for info in store.list(FOLDER)}
    oldest = modified.get(own, 0) - LEFT_BEHIND_MS
    return [key for key, at in modified.items() if at < oldest]
