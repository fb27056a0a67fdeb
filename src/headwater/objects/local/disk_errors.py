"""Translates the operating system's errors for a store in a directory, with advice."""

import errno
from pathlib import Path

from headwater.errors import ObjectStoreUnavailable, StorageFull, StoreError

_FULL = {
    errno.ENOSPC: "free space on its file system or add some",
    errno.EDQUOT: "raise the quota of the user that runs the broker",
    errno.EFBIG: "raise the file size limit (ulimit -f)",
}
_ADVICE = _FULL | {
    errno.EROFS: "mount its file system for writing, or choose another directory",
    errno.EACCES: "give the user that runs the broker the right to write there",
    errno.EPERM: "its file system or the user's rights forbid this; choose another directory",
    errno.EIO: "check the disk and the kernel's log, then restart the broker",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the system's limit of open files (fs.file-max)",
    errno.ENOTDIR: "something that is not a directory stands in its path; move it away",
    errno.EEXIST: "something that is not an object stands in its place; move it away",
}


def advice(error: OSError) -> str:
    """Advice for an error, as the end of a sentence."""
    return _ADVICE.get(error.errno or 0, "check the directory and its file system")


def disk_error(error: OSError, doing: str, root: Path) -> StoreError:
    """The error that a caller of the store gets for one of the operating system's."""
    text = f"{doing} in {root} failed: {error.strerror}; {advice(error)}"
    return StorageFull(text) if error.errno in _FULL else ObjectStoreUnavailable(text)
