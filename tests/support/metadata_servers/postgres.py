"""PostgreSQL under test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from headwater.meta.postgres import PostgresStore
from headwater.meta.sessions import RenewedSession
from headwater.meta.store import Session
from peers.postgres import Postgres, start_postgres


class PostgresBackend:
    """Tables in a schema of their own."""

    def __init__(self, server_url: str, schema: str) -> None:
        self.server_url = server_url
        self.schema = schema
        self.url = f"{server_url}?schema={schema}"

    async def open(self) -> PostgresStore:
        return await PostgresStore.open(self.url)

    async def forget_changes(self) -> None:
        await self.sql("DELETE FROM change WHERE revision < (SELECT revision FROM head)")

    async def abandon(self, session: Session) -> None:
        assert isinstance(session, RenewedSession)
        await session.abandon()

    async def sql(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """Run a statement as an operator would."""
        connection = await asyncpg.connect(
            self.server_url, server_settings={"search_path": self.schema}
        )
        try:
            return await connection.fetch(statement, *arguments)
        finally:
            await connection.close()


class PostgresServers:
    """One server; ``server`` may be stopped and started by a test."""

    def __init__(self, directory: Path) -> None:
        self.server: Postgres = start_postgres(directory / "postgres")

    def backend(self, name: str) -> PostgresBackend:
        return PostgresBackend(self.server.url(), name.replace("-", "_"))

    def stop(self) -> None:
        self.server.stop()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(url)
    try:
        yield store
    finally:
        await store.close()
