"""A ``FileIO`` of pyiceberg whose local files are durable before the catalog refers to them."""

import os
from pathlib import Path
from typing import Self

from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO


class DurableFileIO(PyArrowFileIO):
    """As ``PyArrowFileIO``, but a closed file survives a power failure.

    The catalog's database syncs its commits, and must not refer to a file that is lost.
    """

    def new_output(self, location: str) -> PyArrowFile:
        """A new file."""
        scheme, netloc, path = self.parse_location(location, self.properties)
        if scheme != "file":
            return super().new_output(location)
        return DurableFile(location=location, path=path, fs=self.fs_by_scheme(scheme, netloc))


class DurableFile(PyArrowFile):
    """A local file that is synced on close."""

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002 — pyiceberg's own signature
        """Create the file. Raises ``FileExistsError`` if it exists and ``overwrite`` is false."""
        path = Path(self._path)
        made = [parent for parent in path.parents if not parent.exists()]
        return _SyncedStream(super().create(overwrite=overwrite), path, made)


class _SyncedStream:
    """An output stream that is durable when ``close`` returns."""

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
        """Nothing to do: bytes are durable only after ``close``."""

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
