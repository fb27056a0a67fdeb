"""A lock file for each broker id on this host; the kernel unlocks it when the process ends."""

import fcntl
import os
from pathlib import Path

from headwater.errors import ConfigurationError


class BrokerLock:
    """An exclusive lock on ``<data>/broker-<id>.lock``, until ``release`` or the process ends."""

    def __init__(self, directory: Path, broker_id: int) -> None:
        """Raises ``ConfigurationError`` if another process holds the lock."""
        path = directory / f"broker-{broker_id}.lock"
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigurationError(f"cannot open {path}: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._file, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise ConfigurationError(
                f"broker id {broker_id} is in use by process {holder} on this host: "
                "stop it or choose another --broker-id"
            ) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Unlock the id, so that another process may use it."""
        os.close(self._file)
