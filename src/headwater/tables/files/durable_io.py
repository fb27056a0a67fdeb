"""pyiceberg's files in a local directory, durable before the catalog names them."""

import os
from pathlib import Path
from typing import Self

from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO


class DurableFileIO(PyArrowFileIO):
    """As ``PyArrowFileIO``, but a file and its name survive a power cut once it is closed.

    The catalog's own database syncs its commit; it must not point at a file that is not there.
    """

    def new_output(self, location: str) -> PyArrowFile:
        """A file that does not exist yet."""
        scheme, netloc, path = self.parse_location(location, self.properties)
        if scheme != "file":
            return super().new_output(location)
        return DurableFile(location=location, path=path, fs=self.fs_by_scheme(scheme, netloc))


class DurableFile(PyArrowFile):
    """A local file that is synced when it is closed."""

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002 — pyiceberg's own signature
        """Begin the file; raises ``FileExistsError`` where it is there and must not be."""
        path = Path(self._path)
        made = [parent for parent in path.parents if not parent.exists()]
        return _SyncedStream(super().create(overwrite=overwrite), path, made)


class _SyncedStream:
    """An output stream whose close returns once its bytes are durable."""

    def __init__(self, stream: OutputStream, path: Path, made: list[Path]) -> None:
        self._stream = stream
        self._path = path
        self._made = made

    def write(self, data: bytes) -> int:
        return self._stream.write(data)

    def tell(self) -> int:
        return self._stream.tell()

    @property
    def closed(self) -> bool:
        done: bool = self._stream.closed  # type: ignore[attr-defined]
        return done

    def flush(self) -> None:
        """Bytes count when the file is closed."""

    def close(self) -> None:
        if self.closed:
            return
        self._stream.close()
        _sync(self._path)
        for directory in dict.fromkeys([self._path.parent, *(made.parent for made in self._made)]):
            _sync(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
