"""Translates obstore's errors into Headwater's, with advice.

obstore has few exception classes; the HTTP status and S3's error code are only in the text.
"""

import re

from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

from headwater.errors import ObjectNotFound, ObjectStoreUnavailable, StorageFull, StoreError
from headwater.objects.retrying import TransientFailure

S3_ACCESS = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket's policy"

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_INSTANCE_CREDENTIALS = ("http://169.254.", "http://metadata.google.internal")
"""Addresses where a library looks for credentials on a cloud's machines if none are set."""
_TRANSIENT = {408, 429, 500, 502, 503, 504}
_TRANSIENT_CODES = {"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable"}
_CHANGED_CODES = {"BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch"}
"""S3's error codes if the received bytes do not match their checksum."""
_FULL = 507
_EXPIRED = {"ExpiredToken", "TokenRefreshRequired"}
_UNKNOWN_USER = {"InvalidAccessKeyId", "XAdminUserNotFound"}
"""Some servers send these with status 404, which must not count as a missing object."""


def remote_error(error: Exception, doing: str, where: str, access: str = S3_ACCESS) -> StoreError:
    """The error that a caller of the store gets for an error of obstore.

    ``access`` says what to check if access is denied.
    """
    text = str(error)
    status = int(found[1]) if (found := _STATUS.search(text)) else None
    code = found[1] if (found := _CODE.search(text)) else None
    answer = " ".join(str(word) for word in (status, code) if word)
    failed = f"{doing} in {where} failed"
    if reason := _refusal(error, code, access):
        return ObjectStoreUnavailable(f"{failed}: {reason}" + (f" ({answer})" if answer else ""))
    if isinstance(error, FileNotFoundError):
        return ObjectNotFound(f"{doing} in {where}: no such object")
    if status == _FULL:
        return StorageFull(f"{failed}: no space left ({answer}); add space to the object store")
    if arrived_changed(error):
        return TransientFailure(f"{failed}: its bytes were corrupted in transit ({answer})")
    if status is None or status in _TRANSIENT or code in _TRANSIENT_CODES:
        reason = answer or text.partition("\n")[0]
        return TransientFailure(f"{failed}: {reason}; check that the object store answers")
    return ObjectStoreUnavailable(f"{failed}: the object store refused it ({answer})")


def arrived_changed(error: Exception) -> bool:
    """Whether a put was refused because its bytes do not match their checksum."""
    found = _CODE.search(str(error))
    return found is not None and found[1] in _CHANGED_CODES


def _refusal(error: Exception, code: str | None, access: str) -> str | None:
    """The reason why no request can succeed until the configuration changes, None without one."""
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return "the bucket does not exist; create it, or correct --objects"
    if code in _EXPIRED:
        return "the temporary credentials have expired; start again with new ones, or use a role"
    if code in _UNKNOWN_USER or isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return f"access is denied; check {access}"
    if any(address in str(error) for address in _INSTANCE_CREDENTIALS):
        return f"no credentials; check {access}"
    if "incorrectly configured region" in str(error):
        return "the bucket is in another region; set region= in --objects"
    return None
