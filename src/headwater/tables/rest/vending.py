"""What an engine needs to reach the files of a table without the catalog."""

from dataclasses import dataclass
from typing import Final

from headwater.tables.locations import object_location, storage_properties

_CREDENTIALS: Final[tuple[str, ...]] = (
    "s3.access-key-id",
    "s3.secret-access-key",
    "s3.session-token",
)


@dataclass(frozen=True, slots=True)
class Vending:
    """Properties of a client's ``FileIO``, in the names that Java, Python and DuckDB read."""

    config: dict[str, str]
    credentials: dict[str, str]
    """Empty unless ``tables.catalog_vends_credentials`` is set."""
    prefix: str
    """The locations that the credentials give access to."""

    @property
    def storage_credentials(self) -> list[dict[str, object]]:
        """In the form of the specification's ``StorageCredential``."""
        if not self.credentials:
            return []
        return [{"prefix": self.prefix, "config": self.config | self.credentials}]

    @property
    def table_config(self) -> dict[str, str]:
        """A table's ``config``. It repeats the credentials for clients that look only here."""
        return self.config | self.credentials


def vending(objects_url: str, *, credentials: bool) -> Vending:
    """What clients need for this object store; nothing for local files.

    The credentials are the broker's own and give access to its whole bucket.
    """
    found = storage_properties(objects_url)
    found.pop("py-io-impl")
    secrets = {name: found.pop(name) for name in _CREDENTIALS if name in found}
    if region := found.get("s3.region"):
        found["client.region"] = region
    if addressing := found.get("s3.force-virtual-addressing"):
        found["s3.path-style-access"] = "true" if addressing == "false" else "false"
    return Vending(
        config=found,
        credentials=secrets if credentials else {},
        prefix=object_location(objects_url, ""),
    )
