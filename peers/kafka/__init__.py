"""Apache Kafka 4.3: a single-node broker and its command-line tools, from Maven jars."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from peers.install import maven_jars, require_command
from peers.process import Server, ServerError, free_port, start

HERE = Path(__file__).parent
TOOLS = "org.apache.kafka.tools"

PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""One node that is everything; all else stays at Kafka's defaults."""


def install() -> Path:
    """The folder of Kafka's jars, fetched with Maven the first time."""
    require_command("java", "default-jre-headless")
    return maven_jars("kafka-lib", HERE / "pom.xml")


def java_command(
    main: str,
    *arguments: str | Path,
    heap: str = "256m",
    options: Sequence[str] = (),
    classes: Sequence[Path] = (),
    jars: Path | None = None,
) -> list[str]:
    """The command line that runs one of Kafka's main classes, or one of ``classes``.

    ``jars`` is a folder that stands in place of Kafka's own jars.
    """
    jars = jars or install()
    return [
        str(require_command("java", "default-jre-headless")),
        f"-Xmx{heap}",
        *options,
        f"-Dlog4j2.configurationFile={HERE / 'log4j2.yaml'}",
        "-cp",
        ":".join([*map(str, classes), f"{jars}/*"]),
        main,
        *map(str, arguments),
    ]


def tool_class(name: str) -> str:
    """The main class of a tool: most are in one package, or in one below it."""
    package = name.rpartition(".")[0].split(".")[0]
    return name if package not in {"", "consumer", "reassign"} else f"{TOOLS}.{name}"


def run_tool(
    main: str,
    *arguments: str | Path,
    stdin: bytes = b"",
    limit: float = 60.0,
    check: bool = True,
    heap: str = "256m",
    quick: bool = True,
) -> subprocess.CompletedProcess[bytes]:
    """Run a tool to its end. ``quick`` starts it fast; a tool that measures should not use it."""
    options = ["-XX:+UseSerialGC", *(["-XX:TieredStopAtLevel=1"] if quick else [])]
    done = subprocess.run(
        java_command(tool_class(main), *arguments, heap=heap, options=options),
        input=stdin, capture_output=True, timeout=limit, check=False,
    )  # fmt: skip
    if check and done.returncode != 0:
        said = (done.stdout + done.stderr).decode(errors="replace")[-3000:]
        raise RuntimeError(f"{main} ended with {done.returncode}:\n{said}")
    return done


def start_kafka(
    data: Path, *, properties: Mapping[str, str] | None = None, port: int | None = None
) -> Server:
    """A broker over ``data``, formatted the first time; ``properties`` come on top of ours."""
    port = port or free_port()
    controller = free_port()
    data.mkdir(parents=True, exist_ok=True)
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
    settings = {
        **PROPERTIES,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "log.dirs": str(data / "logs"),
        **(properties or {}),
    }
    file = data / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    if not (data / "logs" / "meta.properties").exists():
        cluster = run_tool("kafka.tools.StorageTool", "random-uuid").stdout.decode().strip()
        run_tool("kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", file)
    # Kafka's own start script gives the broker 1 GB of heap and G1.
    command = java_command("kafka.Kafka", file, heap="1g", options=["-Xms1g", "-XX:+UseG1GC"])
    server = start(command, ports=[port], log=data / "broker.log", limit=90)
    wait_until_answering(server)
    return server


def wait_until_answering(server: Server) -> None:
    """Kafka listens before it is unfenced: wait until it names itself in its metadata."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
    for _ in range(60):
        try:
            if client.list_topics(timeout=2).brokers:
                return
        except KafkaException:
            continue
    server.kill()
    raise ServerError(f"Kafka at {server.bootstrap} does not answer; see {server.log}")
