"""Opens a container of Azure Blob Storage from a URL: ``az://container/prefix?account=name``.

Credentials come from AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_KEY or AZURE_CLIENT_ID and what
belongs to it, or from the machine itself on Azure. Not tested against Azure's own servers.
"""

from typing import TYPE_CHECKING
from urllib.parse import SplitResult

from obstore.store import AzureStore

from headwater.objects.health import StoreHealth
from headwater.objects.remote.bucket_urls import (
    bucket_name,
    bucket_prefix,
    client_options,
    one_line_errors,
    retry_config,
    url_options,
)
from headwater.objects.remote.store import RemoteObjects

if TYPE_CHECKING:  # obstore has this in its type stubs only
    from obstore.store import AzureConfig

ACCESS = "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY and the container's permissions"
OPTIONS = ("account", "endpoint", "ca")


def open_azure(url: SplitResult, *, health: StoreHealth | None = None) -> RemoteObjects:
    """Open the container of a URL, without a request. Raises ``ConfigurationError``."""
    container, prefix = bucket_name(url), bucket_prefix(url)
    options = url_options("az", url.query, OPTIONS)
    config: AzureConfig = {}
    if account := options.get("account"):
        config["account_name"] = account
    endpoint = options.get("endpoint")
    if endpoint:
        config["endpoint"] = endpoint
    where = f"az://{container}/{prefix}"
    with one_line_errors(where):
        store = AzureStore(
            container,
            prefix=prefix or None,
            config=config,
            client_options=client_options(options, endpoint),
            retry_config=retry_config(0),
        )
    return RemoteObjects(store, id="azure", where=where, access=ACCESS, health=health)
