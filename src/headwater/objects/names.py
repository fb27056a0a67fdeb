"""Which keys are legal, the same for every backend.

A key is a readable path of ASCII segments, such as ``wal/inc-7/00000042.wo``. What is refused
is whatever some backend cannot store as it is: ``..`` and absolute paths would leave a
directory, object stores escape signs such as ``%`` and ``#``, a file name has 255 bytes and an
S3 key 1,024. On a directory no key may also be the path above another one (``a`` and ``a/b``),
so no caller makes such keys.

>>> check_key("wal/inc-7/00000042.wo")
>>> check_key("../etc/passwd")
Traceback (most recent call last):
ValueError: '../etc/passwd' is not a legal object key: segments of [A-Za-z0-9 ._=+@,:!()-], ...
"""

import re

MAX_KEY = 1_000
MAX_SEGMENT = 255
TEMPORARY = ".tmp"
"""The first segment that no key has: a directory store writes its unfinished files there."""

_SEGMENT = re.compile(r"[A-Za-z0-9 ._=+@,:!()-]+")


def _legal(segment: str) -> bool:
    return (
        _SEGMENT.fullmatch(segment) is not None
        and segment not in (".", "..")
        and len(segment) <= MAX_SEGMENT
    )


def is_key(key: str) -> bool:
    """Whether an object may have this key."""
    segments = key.split("/")
    return len(key) <= MAX_KEY and segments[0] != TEMPORARY and all(map(_legal, segments))


def check_key(key: str) -> None:
    """Raises ``ValueError`` where ``key`` is not legal: keys are made by code, not by users."""
    if not is_key(key):
        raise ValueError(
            f"{key!r} is not a legal object key: segments of [A-Za-z0-9 ._=+@,:!()-], "
            f"none of them '.' or '..', at most {MAX_SEGMENT} bytes each and {MAX_KEY} in all, "
            f"the first not {TEMPORARY!r}"
        )


def check_range(start: int, length: int) -> None:
    """Raises ``ValueError`` where a range cannot exist in any object."""
    if start < 0 or length < 0:
        raise ValueError(f"a range of {length} bytes from {start} cannot exist")


def directory_of(prefix: str) -> str:
    """The whole segments of a prefix, which must be legal: ``wal/inc-7/0`` is in ``wal/inc-7``."""
    directory, slash, _ = prefix.rpartition("/")
    if slash:
        check_key(directory)
    return directory
