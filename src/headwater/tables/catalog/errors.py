"""Mapping of errors of a catalog and its storage."""

import contextlib
import sqlite3
from collections.abc import Iterator

from headwater.errors import CatalogUnavailable, StorageFull, StoreError

_FULL = (
    "database or disk is full",
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
)


@contextlib.contextmanager
def catalog_errors(doing: str) -> Iterator[None]:
    """Raise ``CatalogUnavailable`` if a call of the catalog fails.

    pyiceberg raises network, database and file errors of its libraries. After any of these the call
    may have succeeded, so the caller must be able to repeat it. pyiceberg's errors that are a
    response of the catalog are not changed.
    """
    import requests
    import sqlalchemy.exc
    from pyiceberg.exceptions import (
        CommitStateUnknownException,
        OAuthError,
        RESTError,
        ServerError,
        ServiceUnavailableError,
        UnauthorizedError,
    )

    try:
        yield
    except StoreError:
        raise
    except (UnauthorizedError, OAuthError) as error:
        raise CatalogUnavailable(
            f"{doing}: the catalog refused the credentials; check tables.catalog_options"
        ) from error
    except (
        requests.RequestException,
        sqlalchemy.exc.SQLAlchemyError,
        sqlite3.Error,
        CommitStateUnknownException,
        ServerError,
        ServiceUnavailableError,
        RESTError,
        OSError,
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if any(text in reason for text in _FULL):
            raise StorageFull(f"{doing}: no space left for the table's metadata") from error
        raise CatalogUnavailable(f"{doing}: the catalog does not answer: {reason[:300]}") from error
