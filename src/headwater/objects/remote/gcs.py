"""Opens a bucket of Google Cloud Storage from a URL: ``gs://bucket/prefix``.

Credentials come from GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT, or from the machine
itself on Google's cloud. Not tested against Google's own servers.
"""

from typing import TYPE_CHECKING
from urllib.parse import SplitResult

from obstore.store import GCSStore

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
    from obstore.store import GCSConfig

ACCESS = "GOOGLE_APPLICATION_CREDENTIALS and the bucket's permissions"
OPTIONS = ("endpoint", "ca")


def open_gcs(url: SplitResult, *, health: StoreHealth | None = None) -> RemoteObjects:
    """Open the bucket of a URL, without a request. Raises ``ConfigurationError``."""
    bucket, prefix = bucket_name(url), bucket_prefix(url)
    options = url_options("gs", url.query, OPTIONS)
    config: GCSConfig = {}
    endpoint = options.get("endpoint")
    if endpoint:
        config["base_url"] = endpoint
    where = f"gs://{bucket}/{prefix}"
    with one_line_errors(where):
        store = GCSStore(
            bucket,
            prefix=prefix or None,
            config=config,
            client_options=client_options(options, endpoint),
            retry_config=retry_config(0),
        )
    return RemoteObjects(store, id="gcs", where=where, access=ACCESS, health=health)
