"""Translates SQLite's errors to the errors of a metadata store."""

import errno

import apsw

from headwater.errors import StorageFull, StoreError, StoreUnavailable, UnknownOutcome

NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def store_error(error: apsw.Error, connection: apsw.Connection, *, commits: bool) -> StoreError:
    """The error of a failed statement; ``commits`` is true if the statement was COMMIT.

    If a COMMIT fails to *write*, there is no commit frame and nothing was committed. If it fails
    later, in the journal's fsync, recovery after a crash may find it complete: its outcome is
    unknown.
    """
    text = f"metadata database {connection.filename}: {error}"
    if isinstance(error, apsw.BusyError):
        return StoreUnavailable(f"{text}; another process held it for too long")
    writing = getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_WRITE
    if isinstance(error, apsw.FullError) or (writing and connection.system_errno in NO_SPACE):
        return StorageFull(f"{text}; free some space")
    if commits and not writing:
        return UnknownOutcome(text)
    return StoreUnavailable(text)
