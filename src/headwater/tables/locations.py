"""Iceberg locations of objects in the object store.

>>> object_location("s3://lake/prod?region=eu-central-1", "tables/x/data/0/f.parquet")
's3://lake/prod/tables/x/data/0/f.parquet'
>>> table_location("file:///srv/my%20data", "x")
'file:///srv/my data/tables/x'
"""

import os
from urllib.parse import SplitResult, unquote, urlsplit

from headwater.errors import ConfigurationError


def object_location(objects_url: str, key: str) -> str:
    """The location of an object. Raises ``ConfigurationError`` if Iceberg cannot address it."""
    return f"{_base(objects_url)}/{key}"


def object_key(objects_url: str, location: str) -> str | None:
    """The key of the object at a location; None if it is outside the object store."""
    base = _base(objects_url) + "/"
    return location.removeprefix(base) if location.startswith(base) else None


def table_location(objects_url: str, topic_id: str) -> str:
    """The location of a topic's table; unique for each topic id."""
    return object_location(objects_url, f"tables/{topic_id}")


def storage_properties(objects_url: str) -> dict[str, str]:
    """Properties with which pyiceberg opens the object store: endpoint, region, credentials."""
    parts = urlsplit(objects_url)
    if parts.scheme != "s3":
        return {"py-io-impl": "headwater.tables.files.durable_io.DurableFileIO"}
    return _s3_properties(parts)


def _s3_properties(parts: SplitResult) -> dict[str, str]:
    from headwater.objects.remote.s3 import s3_options

    options = s3_options(parts.query)
    environment = os.environ
    endpoint = options.get("endpoint") or environment.get("AWS_ENDPOINT_URL")
    region = options.get("region") or environment.get("AWS_REGION")
    region = region or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
    found = {
        "s3.endpoint": endpoint,
        "s3.region": region,
        "s3.access-key-id": environment.get("AWS_ACCESS_KEY_ID"),
        "s3.secret-access-key": environment.get("AWS_SECRET_ACCESS_KEY"),
        "s3.session-token": environment.get("AWS_SESSION_TOKEN"),
        "s3.force-virtual-addressing": "false" if endpoint else None,
    }
    if options.get("path_style") == "false":
        found["s3.force-virtual-addressing"] = "true"
    properties = {name: value for name, value in found.items() if value}
    return {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO", **properties}


def _base(objects_url: str) -> str:
    parts = urlsplit(objects_url)
    path = unquote(parts.path).rstrip("/")
    match parts.scheme:
        case "s3":
            return f"s3://{parts.netloc}{path}"
        case "file" if not set(path) & set("%#?"):
            return f"file://{path}"
        case "file":
            raise ConfigurationError(
                f"{path!r}: the path of a table's directory must not contain %, # or ?"
            )
        case _:
            raise ConfigurationError(
                f"tables need objects in a directory (file:///) or a bucket (s3://), "
                f"not {parts.scheme}://"
            )
