"""The section `http`."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """What the HTTP servers of a broker have in common."""

    allowed_hosts: Annotated[
        str,
        Meta(
            description="Further host names, separated by commas, by which clients may reach "
            "metrics and the REST catalog. IP addresses, `localhost` and the hosts of `listen` and "
            "`advertise` settings are always allowed; other names get 421. `*` allows every name."
        ),
    ] = ""

    @property
    def host_names(self) -> list[str]:
        """The names one by one."""
        return self.allowed_hosts.split(",")
