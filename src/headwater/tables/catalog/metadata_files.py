"""The metadata files of a table, found without its catalog."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

_VERSION: Final = re.compile(r"0*(\d+)-[^/]*\.metadata\.json")


@dataclass(frozen=True, slots=True, order=True)
class MetadataFile:
    """A metadata file. A newer one compares greater."""

    version: int
    modified_ns: int
    location: str


def version_of(location: str) -> int:
    """The version number at the start of a metadata file's name; -1 without one."""
    found = _VERSION.fullmatch(location.rpartition("/")[2])
    return int(found[1]) if found else -1


def metadata_files(directory: str, properties: Mapping[str, str]) -> list[MetadataFile]:
    """The metadata files in a directory, newest first; none if the directory is missing."""
    from pyarrow.fs import FileSelector
    from pyiceberg.io.pyarrow import PyArrowFileIO

    files = PyArrowFileIO(dict(properties))
    scheme, netloc, path = PyArrowFileIO.parse_location(directory, dict(properties))
    listed = files.fs_by_scheme(scheme, netloc).get_file_info(
        FileSelector(path, allow_not_found=True)
    )
    found = [
        MetadataFile(
            version_of(info.base_name), info.mtime_ns or 0, f"{directory}/{info.base_name}"
        )
        for info in listed
    ]
    return sorted((file for file in found if file.version >= 0), reverse=True)


def directories(directory: str, properties: Mapping[str, str]) -> list[str]:
    """The names of the directories directly in a directory."""
    from pyarrow.fs import FileSelector, FileType
    from pyiceberg.io.pyarrow import PyArrowFileIO

    files = PyArrowFileIO(dict(properties))
    scheme, netloc, path = PyArrowFileIO.parse_location(directory, dict(properties))
    listed = files.fs_by_scheme(scheme, netloc).get_file_info(
        FileSelector(path, allow_not_found=True)
    )
    return [info.base_name for info in listed if info.type == FileType.Directory]


def read_metadata(location: str, properties: Mapping[str, str]) -> "TableMetadata":
    """Read a metadata file. Raises ``OSError``, or ``ValueError`` if it is not table metadata."""
    from pyiceberg.io import load_file_io
    from pyiceberg.serializers import FromInputFile

    return FromInputFile.table_metadata(
        load_file_io(dict(properties), location).new_input(location)
    )
