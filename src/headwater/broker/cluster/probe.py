"""Checks whether a broker answers at an address."""

import asyncio
from typing import Final

PROBE_SECONDS: Final = 2.0
_API_VERSIONS: Final = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
"""An ApiVersions request, version 0, without a client id."""


async def answers(host: str, port: int, timeout: float = PROBE_SECONDS) -> bool:  # noqa: ASYNC109
    """Whether an ApiVersions request is answered within ``timeout`` seconds."""
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(_API_VERSIONS)
                await reader.readexactly(8)
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return False
    return True
