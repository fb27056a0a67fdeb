"""Creates and upgrades the tables by numbered migrations.

Each migration is an SQL file. The missing ones run in one transaction under a lock: if several
brokers start at once, one of them migrates and the others wait.
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
"""A migration may take long, and other brokers wait for it without a timeout."""

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
    """The name and the SQL of every migration, by number."""
    files = resources.files("headwater.meta.postgres").joinpath("migrations").iterdir()
    named = {file.name.removesuffix(".sql"): file for file in files if file.name.endswith(".sql")}
    return {
        int(name.partition("_")[0]): (name, named[name].read_text(encoding="utf-8"))
        for name in sorted(named)
    }


async def migrate(connection: "Connection", address: PostgresAddress) -> None:
    """Upgrade the schema to this release's version.

    Raises ``UnknownFormat`` if a newer release has upgraded it further, ``ConfigurationError`` if
    the schema belongs to another program, and what asyncpg raises.
    """
    if await _missing(connection, address) == []:
        return
    try:
        async with connection.transaction():
            await connection.execute(NO_TIMEOUTS)
            await connection.execute(LOCK, address.schema, timeout=MIGRATING_SECONDS)
            # An owner of the schema may lack the permission to create one.
            if await connection.fetchval("SELECT to_regnamespace($1)", address.schema) is None:
                await connection.execute(f"CREATE SCHEMA {address.schema}")
            for number in await _missing(connection, address):
                await _apply(connection, number)
    except (asyncpg.DuplicateTableError, asyncpg.DuplicateFunctionError) as error:
        raise ConfigurationError(
            f"metadata database {address.label} has tables of another program ({error}): "
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
