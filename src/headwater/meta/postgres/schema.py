"""The tables, made and upgraded by numbered migrations.

Each migration is a file of SQL. Those that are missing run in one transaction under a lock, so
that of several brokers which start at once one does it and the others find it done.
"""

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import asyncpg

from headwater.errors import ConfigurationError, UnknownFormat
from headwater.meta.postgres.address import PostgresAddress

if TYPE_CHECKING:
    from headwater.meta.postgres.connections import Connection

MIGRATING_SECONDS = 600.0

NO_TIMEOUTS = """
SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('lock_timeout', 'transaction_timeout')
"""
"""A migration takes the time that it needs, and others wait for it."""

LOCK = "SELECT pg_advisory_xact_lock(hashtext('headwater migrates'), hashtext($1))"
LEDGER = """
CREATE TABLE migration (
  number integer PRIMARY KEY,
  name text NOT NULL,
  applied timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""


@cache
def migrations() -> dict[int, tuple[str, str]]:
    """Every migration's name and SQL, by its number."""
    files = resources.files("headwater.meta.postgres").joinpath("migrations").iterdir()
    named = {file.name.removesuffix(".sql"): file for file in files if file.name.endswith(".sql")}
    return {
        int(name.partition("_")[0]): (name, named[name].read_text(encoding="utf-8"))
        for name in sorted(named)
    }


async def migrate(connection: "Connection", address: PostgresAddress) -> None:
    """Bring the schema to this release's version.

    Raises ``UnknownFormat`` where a newer release has been here, ``ConfigurationError`` where
    the schema is another program's, and what asyncpg raises.
    """
    if await _missing(connection, address) == []:
        return
    try:
        async with connection.transaction():
            await connection.execute(NO_TIMEOUTS)
            await connection.execute(LOCK, address.schema, timeout=MIGRATING_SECONDS)
            # Creating a schema needs a right that its owner may not have.
            if await connection.fetchval("SELECT to_regnamespace($1)", address.schema) is None:
                await connection.execute(f"CREATE SCHEMA {address.schema}")
            for number in await _missing(connection, address):
                await _apply(connection, number)
    except (asyncpg.DuplicateTableError, asyncpg.DuplicateFunctionError) as error:
        raise ConfigurationError(
            f"metadata database {address.label} holds another program's tables ({error}): "
            "name another schema with ?schema="
        ) from error


async def _missing(connection: "Connection", address: PostgresAddress) -> list[int]:
    known = migrations()
    ledger = f"{address.schema}.migration"
    if await connection.fetchval("SELECT to_regclass($1)", ledger) is None:
        return list(known)
    applied = {row[0] for row in await connection.fetch("SELECT number FROM migration")}
    if max(applied) > max(known):
        raise UnknownFormat(
            f"metadata database {address.label} has version {max(applied)}, this release knows up "
            f"to {max(known)}: use the release that upgraded it, or a later one"
        )
    return [number for number in known if number not in applied]


async def _apply(connection: "Connection", number: int) -> None:
    name, sql = migrations()[number]
    if number == 1:
        await connection.execute(LEDGER)
    await connection.execute(sql, timeout=MIGRATING_SECONDS)
    await connection.execute("INSERT INTO migration (number, name) VALUES ($1, $2)", number, name)
