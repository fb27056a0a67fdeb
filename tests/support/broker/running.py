"""A broker on memory stores behind a real socket, and a client that speaks kio's messages."""

import asyncio
import io
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from headwater.broker.authorizer import AllowAll, Authorizer
from headwater.broker.cluster.view import PLAINTEXT, ListenerAddress, SingleBroker
from headwater.broker.configs.dynamic_state import DynamicState
from headwater.broker.network.listener import Listener, broker_address
from headwater.broker.network.server import Server, listen
from headwater.broker.records.fetch_sessions import FetchSessions
from headwater.broker.services import Services
from headwater.broker.settings import BrokerSettings
from headwater.clock import SystemClock
from headwater.engine import Engine, LogDirectory, StorageEngine
from headwater.groups.service import GroupService
from headwater.groups.settings import GroupSettings
from headwater.log.engine import IN_MEMORY, LogEngine, open_cluster
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.settings import LogSettings
from headwater.meta.memory import MemoryStore
from headwater.meta.store import MetadataStore
from headwater.objects.memory import MemoryObjects
from headwater.producer_ids import StoredProducerIds
from headwater.telemetry.metrics import Metrics
from headwater.wire.batches.records import Record, encode_batch
from headwater.wire.messages.api_versions import ApiKey
from headwater.wire.messages.schema import ENTITY, fields_of
from tests.support.broker.fake_groups import FakeGroups

NOW = SystemClock().now_ms()


@dataclass
class RunningBroker:
    server: Server
    services: Services
    port: int
    ports: Mapping[str, int] = field(default_factory=dict)
    """The port of each listener."""

    @property
    def engine(self) -> Engine:
        return self.services.engine

    async def connect(self, listener: str | None = None) -> "WireClient":
        port = self.port if listener is None else self.ports[listener]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        return WireClient(reader, writer)

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> UUID:
        topic = await self.engine.topics.create(
            name, partitions, {key.replace("_", "."): value for key, value in configs.items()}
        )
        return topic.id

    async def call(self, api: int, version: int, /, **fields: Any) -> Any:
        """One request on a new connection."""
        client = await self.connect()
        try:
            return await client.call(api, version, **fields)
        finally:
            await client.close()


@asynccontextmanager
async def running_broker(
    engine: StorageEngine | None = None,
    settings: BrokerSettings | None = None,
    groups: GroupService | None = None,
    directory: LogDirectory = IN_MEMORY,
    log_settings: LogSettings | None = None,
    listeners: Sequence[str] = (PLAINTEXT,),
    authorizer: Authorizer | None = None,
) -> AsyncIterator[RunningBroker]:
    meta = MemoryStore()
    log_settings = log_settings or LogSettings()
    async with (
        dynamic_state(meta) as dynamic,
        _engine(meta, dynamic, log_settings, directory) as log_engine,
    ):
        serving = [_listener(name) for name in listeners]
        advertised = [each.advertised for each in serving]
        settings = settings or BrokerSettings(stop_timeout_s=1)
        services = Services(
            engine=engine or log_engine,
            backpressure=engine or log_engine,
            producer_ids=StoredProducerIds(meta, await open_cluster(meta, Random(1))),
            dynamic=dynamic,
            groups=groups or FakeGroups(),
            cluster=SingleBroker("cluster", broker_address(1, advertised)),
            settings=settings,
            clock=SystemClock(),
            fetch_sessions=FetchSessions(
                settings.max_fetch_sessions,
                settings.fetch_session_idle_ms / 1000,
                asyncio.get_running_loop().time,
                Random(1),
            ),
            authorizer=authorizer or AllowAll(),
        )
        server = Server(services, serving)
        await server.start()
        try:
            ports = {one.listener: one.port for one in advertised}
            yield RunningBroker(server, services, advertised[0].port, ports)
        finally:
            await server.stop()


def _listener(name: str) -> Listener:
    accepting = listen("127.0.0.1", 0)
    return Listener(accepting, ListenerAddress(name, "127.0.0.1", accepting.getsockname()[1]))


@asynccontextmanager
async def dynamic_state(meta: MetadataStore, broker_id: int = 1) -> AsyncIterator[DynamicState]:
    dynamic = DynamicState(
        meta,
        broker_id=broker_id,
        group_settings=GroupSettings(),
        now=asyncio.get_running_loop().time,
    )
    await dynamic.load()
    task = asyncio.ensure_future(dynamic.run())
    try:
        yield dynamic
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _engine(
    meta: MetadataStore, dynamic: DynamicState, settings: LogSettings, directory: LogDirectory
) -> AsyncIterator[LogEngine]:
    clock, rng = SystemClock(), Random(1)
    objects = MemoryObjects(clock=clock)
    engine = LogEngine(
        meta=meta,
        objects=objects,
        reclaimer=Reclaimer(objects),
        broker_id=1,
        cluster=await open_cluster(meta, rng),
        settings=settings,
        clock=clock,
        rng=rng,
        metrics=Metrics(),
        living=lambda: [engine.incarnation],
        share=lambda _stream: True,
        topic_defaults=lambda: dynamic.brokers.topic_defaults,
        directory=directory,
    )
    await engine.start()
    task = asyncio.ensure_future(engine.run())
    try:
        yield engine
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await engine.close()
        await meta.close()


class WireClient:
    """Sends and receives whole messages; ``fields`` may nest dicts."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._correlation = 0

    async def call(self, api: int, version: int, /, **fields: Any) -> Any:
        correlation = await self.send(api, version, **fields)
        got, response = await self.receive(api, version)
        assert got == correlation
        return response

    async def send(self, api: int, version: int, /, **fields: Any) -> int:
        self._correlation += 1
        self.writer.write(request_frame(api, version, self._correlation, **fields))
        await self.writer.drain()
        return self._correlation

    async def receive(self, api: int, version: int) -> tuple[int, Any]:
        frame = await self.receive_frame()
        schema: Any = load_response_schema(api, version)
        header, size = entity_reader(schema.__header_schema__)(frame, 0)
        response, body = entity_reader(schema)(frame, size)
        assert size + body == len(frame)
        return header.correlation_id, response

    async def receive_frame(self) -> bytes:
        (length,) = struct.unpack(">i", await self._reader.readexactly(4))
        return await self._reader.readexactly(length)

    async def is_closed(self) -> bool:
        """Waits until the other side closes; False where it sends something instead."""
        try:
            return await self._reader.read(1) == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


def request_frame(api: int, version: int, correlation: int, /, **fields: Any) -> bytes:
    schema: Any = load_request_schema(api, version)
    header = schema.__header_schema__(
        request_api_key=api,
        request_api_version=version,
        correlation_id=correlation,
        client_id="test",
    )
    buffer = io.BytesIO()
    entity_writer(schema.__header_schema__)(buffer, header)
    entity_writer(schema)(buffer, build(schema, fields))
    data = buffer.getvalue()
    return struct.pack(">i", len(data)) + data


def build(schema: Any, values: dict[str, Any]) -> Any:
    """A kio entity of nested dicts; fields that the version lacks are an error."""
    arguments: dict[str, Any] = {}
    known = {field.name: field for field in fields_of(schema)}
    for name, value in values.items():
        field = known[name]
        if field.type == ENTITY and value is not None:
            arguments[name] = (
                tuple(build(field.entity, one) for one in value)
                if field.is_array
                else build(field.entity, value)
            )
        elif field.type in ("timedelta_i32", "timedelta_i64"):
            arguments[name] = timedelta(milliseconds=value)
        elif field.is_array and value is not None:
            arguments[name] = tuple(value)
        else:
            arguments[name] = value
    return schema(**arguments)


def batch(*values: bytes | None, codec: int = 0, timestamp: int = NOW, **options: Any) -> bytes:
    """A record batch with one record for each value; keys are the values' positions."""
    keyed = options.pop("keyed", True)
    records = [
        Record(index, timestamp, b"%d" % index if keyed else None, value)
        for index, value in enumerate(values)
    ]
    return encode_batch(records, codec=codec, **options)


def produce_fields(
    topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1
) -> dict[str, Any]:
    """A Produce request of versions 3 to 12."""
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": 10_000,
        "topic_data": [
            {"name": topic, "partition_data": [{"index": partition, "records": records}]}
        ],
    }


def fetch_fields(
    topic: str | UUID,
    offset: int,
    *,
    partition: int = 0,
    max_wait: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    **more: Any,
) -> dict[str, Any]:
    """A Fetch request of one partition, by name up to version 12 and by id from 13 on."""
    name = "topic_id" if isinstance(topic, UUID) else "topic"
    return {
        "replica_id": -1,
        "max_wait": max_wait,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": 0,
        "topics": [
            {
                name: topic,
                "partitions": [
                    {
                        "partition": partition,
                        "fetch_offset": offset,
                        "partition_max_bytes": partition_max_bytes,
                    }
                ],
            }
        ],
        **more,
    }


SESSIONLESS = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}


async def still_serves(broker: RunningBroker) -> None:
    response = await broker.call(ApiKey.API_VERSIONS, 0)
    assert response.error_code == 0
