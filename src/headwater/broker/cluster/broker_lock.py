"""A lock file that says which process on this host is a broker; it goes when the process does."""

import fcntl
import os
from pathlib import Path

from headwater.errors import ConfigurationError


class BrokerLock:
    """An exclusive lock on ``<data>/broker-<id>.lock``, held until ``release`` or death."""

    def __init__(self, directory: Path, broker_id: int) -> None:
        """Raises ``ConfigurationError`` where a process that lives holds it."""
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
        """Let another process take the id."""
        os.close(self._file)
