"""SQLite's errors in Headwater's terms."""

import errno

import apsw

from headwater.errors import StorageFull, StoreError, StoreUnavailable, UnknownOutcome

NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def store_error(error: apsw.Error, connection: apsw.Connection, *, commits: bool) -> StoreError:
    """What a failed statement means for its transaction; ``commits`` where it was the COMMIT.

    A COMMIT that fails to *write* leaves no commit frame, so nothing landed. One that fails
    later (the journal's fsync) may be found complete by the recovery after a crash: unknown.
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
