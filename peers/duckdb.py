"""DuckDB with its Iceberg extension, in a folder of its own.

Its extensions come for one release each, and PyPI has them for an older one than DuckDB itself.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peers.install import InstallError, python_package
from peers.process import tail

VERSION = "1.5.5"
PACKAGES = ("duckdb", *(f"duckdb-extension-{name}" for name in ("avro", "httpfs", "iceberg")))
LIMIT_SECONDS = 600


def install() -> list[Path]:
    """The folders to import from."""
    return [python_package(f"{package}=={VERSION}") for package in PACKAGES]


def query(text: str, storage: Mapping[str, Any]) -> Any:
    """A query's result as a ``pyarrow.Table``; ``storage`` has pyiceberg's ``s3.`` properties."""
    import pyarrow as pa

    folders = install()
    with tempfile.TemporaryDirectory(prefix="duckdb-") as scratch:
        output = Path(scratch) / "result"
        asked = {
            "query": text,
            "extensions": [str(_extension(folder)) for folder in folders[1:]],
            "secret": _secret(storage),
            "scratch": scratch,
            "output": str(output),
        }
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_SECONDS,
            env={**os.environ, "PYTHONPATH": str(folders[0])},
        )
        if done.returncode != 0:
            raise InstallError(f"DuckDB failed: {tail(done)}")
        with pa.OSFile(str(output)) as file:
            return pa.ipc.open_stream(file).read_all()


def _extension(folder: Path) -> Path:
    (found,) = folder.glob("*/extensions/*/*.duckdb_extension")
    return found


def _secret(storage: Mapping[str, Any]) -> str:
    """What opens a bucket, as DuckDB's own statement; empty for a directory."""
    endpoint = storage.get("s3.endpoint")
    if not endpoint:
        return ""
    scheme, _, host = endpoint.partition("://")
    return (
        f"CREATE SECRET (TYPE s3, KEY_ID '{storage['s3.access-key-id']}', "
        f"SECRET '{storage['s3.secret-access-key']}', REGION '{storage['s3.region']}', "
        f"ENDPOINT '{host}', URL_STYLE 'path', USE_SSL {str(scheme == 'https').lower()})"
    )


_PROGRAM = """\
import json, sys, duckdb, pyarrow as pa
asked = json.load(sys.stdin)
database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
database.execute(f"SET temp_directory = '{asked['scratch']}'; SET TimeZone = 'UTC'")
for extension in asked["extensions"]:
    database.execute(f"LOAD '{extension}'")
if asked["secret"]:
    database.execute(asked["secret"])
reader = database.execute(asked["query"]).to_arrow_reader(100_000)
with pa.OSFile(asked["output"], "wb") as file, pa.ipc.new_stream(file, reader.schema) as out:
    for batch in reader:
        out.write_batch(batch)
"""
