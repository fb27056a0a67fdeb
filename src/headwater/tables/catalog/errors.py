"""What the failures of a catalog and of the storage below it mean for a caller."""

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
    """Raise ``CatalogUnavailable`` for whatever says that a catalog could not be asked.

    pyiceberg lets the errors of its libraries through: those of the network, of the database and
    of the file system. None of them says for sure that nothing was written, so the caller must
    be able to repeat the call. pyiceberg's own errors that are an answer are left as they are.
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
