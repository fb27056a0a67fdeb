"""Which object keys are legal, for every backend.

A key is a readable path of ASCII segments, such as ``wal/inc-7/00000042.wo``. A key is refused if
some backend could not store it unchanged: ``..`` and absolute paths would leave a directory, object
stores escape characters such as ``%`` and ``#``, a file name may have 255 bytes, and a key of S3
1,024 bytes. In a directory no key may be the parent path of another one (``a`` and ``a/b``), so
callers must not create such keys.

>>> check_key("wal/inc-7/00000042.wo")
>>> check_key("../etc/passwd")
Traceback (most recent call last):
ValueError: '../etc/passwd' is not a legal object key: segments of [A-Za-z0-9 ._=+@,:!()-], ...
"""

import re

MAX_KEY_LENGTH = 1_000
MAX_SEGMENT_LENGTH = 255
TEMPORARY_SEGMENT = ".tmp"
"""No key begins with this segment: unfinished files of a directory store are there."""

_SEGMENT = re.compile(r"[A-Za-z0-9 ._=+@,:!()-]+")


def _legal(segment: str) -> bool:
    return (
        _SEGMENT.fullmatch(segment) is not None
        and segment not in (".", "..")
        and len(segment) <= MAX_SEGMENT_LENGTH
    )


def is_key(key: str) -> bool:
    """Whether a key is legal."""
    segments = key.split("/")
    return (
        len(key) <= MAX_KEY_LENGTH
        and segments[0] != TEMPORARY_SEGMENT
        and all(map(_legal, segments))
    )


def check_key(key: str) -> None:
    """Raises ``ValueError`` if ``key`` is not legal; keys come from code, never from users."""
    if not is_key(key):
        raise ValueError(
            f"{key!r} is not a legal object key: segments of [A-Za-z0-9 ._=+@,:!()-], "
            "none of them '.' or '..', "
            f"at most {MAX_SEGMENT_LENGTH} bytes each and {MAX_KEY_LENGTH} in all, "
            f"the first not {TEMPORARY_SEGMENT!r}"
        )


def check_range(start: int, length: int) -> None:
    """Raises ``ValueError`` if a range has a negative start or length."""
    if start < 0 or length < 0:
        raise ValueError(f"a range of {length} bytes from position {start} cannot exist")


def directory_of(prefix: str) -> str:
    """The complete segments of a legal prefix: ``wal/inc-7`` for ``wal/inc-7/0``."""
    directory, slash, _ = prefix.rpartition("/")
    if slash:
        check_key(directory)
    return directory
