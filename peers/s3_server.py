"""What every S3 server here has in common: its key, its URL for a bucket, and making buckets."""

import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import timedelta

import obstore
from obstore.store import S3Store

from peers.process import ServerError
from peers.service import Service

ACCESS_KEY = "headwater"
SECRET_KEY = "headwater-secret"  # noqa: S105  of a server on loopback
REGION = "us-east-1"
_CONFLICT = 409


@dataclass(slots=True, kw_only=True)
class S3Server(Service):
    """A running S3 server on loopback."""

    scheme: str = "http"

    @property
    def endpoint(self) -> str:
        return f"{self.scheme}://{self.address}"

    def url(self, bucket: str, prefix: str = "") -> str:
        """What ``--objects`` takes; the key comes from ``client_environment``."""
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}&region={REGION}&path_style=true"

    @staticmethod
    def client_environment() -> dict[str, str]:
        """The variables that a client of this server needs."""
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    def create_bucket(self, name: str) -> None:
        """Make a bucket, where it is not there yet."""
        service = S3Store(
            name,
            config={
                "endpoint": self.endpoint,
                "region": REGION,
                "access_key_id": ACCESS_KEY,
                "secret_access_key": SECRET_KEY,
            },
            client_options={"allow_http": True},
        )
        # obstore makes no buckets, but what it signs for the empty key is the bucket itself.
        url = obstore.sign(service, "PUT", "", timedelta(minutes=1))
        request = urllib.request.Request(url, method="PUT")  # noqa: S310  our own http URL
        try:
            urllib.request.urlopen(request, timeout=10).close()  # noqa: S310
        except urllib.error.HTTPError as refused:
            if refused.code != _CONFLICT:
                said = refused.read().decode(errors="replace")
                raise ServerError(f"bucket {name} was refused: {said}") from None
