"""Parses a ``postgres://`` URL."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from headwater.errors import ConfigurationError

DEFAULT_SCHEMA = "headwater"
LEGAL_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A database and the schema to use; ``label`` names both in messages, without the password."""

    dsn: str
    schema: str
    label: str


def parse_postgres_address(url: str) -> PostgresAddress:
    """Parse a connection URL of libpq, with an additional option ``schema=``.

    Raises ``ConfigurationError`` if the schema's name would need quotes in SQL.

    >>> parse_postgres_address("postgres://me:secret@db:5433/streams?schema=one&sslmode=require").label
    'postgres://db:5433/streams?schema=one'
    """
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(options).get("schema", DEFAULT_SCHEMA)
    label = f"postgres://{parts.netloc.rpartition('@')[2]}{parts.path}?schema={schema}"
    if not LEGAL_SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise ConfigurationError(
            f"{label}: {schema!r} is not a legal schema name: use lower-case letters, digits and "
            "underscores; it may not begin with a digit or pg_"
        )
    query = urlencode([option for option in options if option[0] != "schema"])
    return PostgresAddress(parts._replace(query=query).geturl(), schema, label)
