"""Options, configuration and errors of the commands that are Kafka clients.

They use librdkafka through confluent-kafka, so they work with any Kafka cluster.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

REQUEST_TIMEOUT = 15.0
CONNECT_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class ClusterClient:
    """The bootstrap servers of a cluster and the client properties."""

    bootstrap: str
    properties: Mapping[str, str]

    def configuration(self, **more: object) -> dict[str, Any]:
        """The client's configuration. Names in ``more`` have ``_`` in place of ``.``."""
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": "headwater-cli",
            "log_level": 0,
            "logger": logging.getLogger("headwater.cli.librdkafka"),
            "socket.timeout.ms": int(REQUEST_TIMEOUT * 1000),
            **{name.replace("_", "."): value for name, value in more.items()},
            **self.properties,
        }

    def admin(self) -> Any:
        """A connected admin client. Keep a reference until its futures are done."""
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(self.configuration())
        admin.describe_cluster(request_timeout=CONNECT_TIMEOUT).result()
        return admin

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of librdkafka into one line that says what to do."""
        from confluent_kafka import KafkaError, KafkaException

        try:
            yield
        except TimeoutError as raised:
            raise click.ClickException(f"{self.bootstrap} did not answer in time") from raised
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            unreachable = (
                KafkaError._TRANSPORT,
                KafkaError._ALL_BROKERS_DOWN,
                KafkaError._TIMED_OUT,
                KafkaError._RESOLVE,
            )
            if error.code() in unreachable:
                raise click.ClickException(
                    f"no broker answers at {self.bootstrap}; "
                    "start one with `headwater serve`, or name another with --bootstrap"
                ) from raised
            raise click.ClickException(describe(error)) from raised


def describe(error: Any) -> str:
    """A ``confluent_kafka.KafkaError`` in one line, with its Kafka name and code."""
    text = " ".join(str(error.str()).split()).removeprefix("Broker: ")
    return f"{text} ({error.name()}, {error.code()})"


def cluster_options(function: Function) -> Function:
    """Add ``--bootstrap`` and ``-X``; they are passed to the command as ``cluster``."""
    from functools import wraps

    @click.option(
        "-b",
        "--bootstrap",
        envvar="HEADWATER_BOOTSTRAP",
        show_envvar=True,
        default="127.0.0.1:9092",
        show_default=True,
        metavar="HOST:PORT,...",
        help="Bootstrap brokers.",
    )
    @click.option(
        "-X",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        callback=pairs,
        help="A librdkafka property, such as security.protocol=ssl; repeatable.",
    )
    @wraps(function)
    def command(bootstrap: str, properties: dict[str, str], **arguments: Any) -> Any:
        cluster = ClusterClient(bootstrap, properties)
        with cluster.errors():
            return function(cluster=cluster, **arguments)

    return command  # type: ignore[return-value]


def pairs(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Read repeated ``NAME=VALUE`` options."""
    found: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param=parameter)
        found[name] = value
    return found


def complete_topic(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Topic names for shell completion; none if no broker answers within a second."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    bootstrap = ctx.params.get("bootstrap") or "127.0.0.1:9092"
    try:
        topics = (
            AdminClient(ClusterClient(bootstrap, {}).configuration()).list_topics(timeout=1).topics
        )
    except KafkaException:
        return []
    return sorted(name for name in topics if name.startswith(incomplete))
