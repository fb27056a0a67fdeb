"""The HTTP pages beside a broker: telemetry and the REST catalog, each on a separate port."""

import logging
import os
from contextlib import AsyncExitStack
from pathlib import Path

from headwater.config import HostPort, Settings
from headwater.errors import ConfigurationError
from headwater.extras import require_extra
from headwater.http.hosts import AllowedHosts
from headwater.http.limits import HttpLimits
from headwater.http.mounts import Mount
from headwater.telemetry.pages import LIMITS

logger = logging.getLogger(__name__)


async def serve_telemetry(settings: Settings, mount: Mount, closing: AsyncExitStack) -> None:
    """Serve the mount at ``metrics.listen``, if that is set, until the stack is closed.

    Raises ``ConfigurationError`` if that is not possible.
    """
    if settings.metrics.listen is None:
        return
    address = HostPort.parse(settings.metrics.listen)
    hosts = allowed_hosts(settings, address)
    await _serve(mount, hosts, LIMITS, address, ("metrics", "--metrics"), closing)


async def serve_catalog(settings: Settings, closing: AsyncExitStack) -> None:
    """Serve the tables at ``tables.catalog_listen``, if that is set, until the stack is closed.

    Raises ``ConfigurationError`` if that is not possible.
    """
    if settings.tables.catalog_listen is None:
        return
    require_extra("table", "--catalog")
    from headwater.tables.rest.service import catalog_service

    address = HostPort.parse(settings.tables.catalog_listen)
    if address.host not in ("127.0.0.1", "::1", "localhost"):
        logger.warning(
            "The catalog has no authentication; anyone who can connect can change users' tables",
            extra={"address": str(address)},
        )
    logging.getLogger("pyiceberg").setLevel(logging.WARNING)  # it logs every file that it opens
    service = catalog_service(
        settings.tables,
        data=Path(settings.data),
        metadata_url=settings.metadata_url,
        objects_url=settings.objects_url,
    )
    closing.push_async_callback(service.close)
    await service.open()
    hosts = allowed_hosts(settings, address)
    names = ("the catalog", "--catalog")
    await _serve(service.mount, hosts, HttpLimits(), address, names, closing)


async def _serve(
    mount: Mount,
    hosts: AllowedHosts,
    limits: HttpLimits,
    address: HostPort,
    names: tuple[str, str],
    closing: AsyncExitStack,
) -> None:
    from headwater.http.server import HttpServer  # imports aiohttp

    pages, flag = names
    server = HttpServer([mount], hosts, limits)
    try:
        await server.start(address.host, address.port)
    except OSError as error:
        raise ConfigurationError(
            f"cannot serve {pages} on {address}: {os.strerror(error.errno or 0)}; "
            f"choose another address with {flag}"
        ) from error
    closing.push_async_callback(server.close)


def allowed_hosts(settings: Settings, listening: HostPort) -> AllowedHosts:
    """The hosts of a page: its own, those of the broker, and those of ``http.allowed_hosts``.

    >>> from headwater.broker.settings import BrokerSettings
    >>> from headwater.http.settings import HttpSettings
    >>> broker = BrokerSettings(listen="0.0.0.0:9092", advertise="b1.example:9092")
    >>> settings = Settings(broker=broker, http=HttpSettings(allowed_hosts="lake, Proxy.example"))
    >>> sorted(allowed_hosts(settings, HostPort("10.0.0.1", 8181)).names)
    ['10.0.0.1', 'b1.example', 'lake', 'proxy.example']
    """
    advertised = settings.broker.advertise or settings.broker.listen
    addresses = (listening, HostPort.parse(settings.broker.listen), HostPort.parse(advertised))
    own = [address.host for address in addresses if not address.is_wildcard]
    return AllowedHosts.of([*own, *settings.http.host_names])
