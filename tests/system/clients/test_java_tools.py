"""Kafka's own command-line tools, each against the running broker."""

import json
import re
from pathlib import Path

import pytest

from tests.support.interop.capabilities import TIMES
from tests.support.interop.clients import LIBRDKAFKA
from tests.support.interop.records import InteropRecord, numbered
from tests.support.interop.tools import run, tool
from tests.support.waiting import wait_until
from tests.system.clients.conftest import TOOLS, create_topic, fresh_name


@pytest.mark.cell(TOOLS, "TopicCommand --create")
@pytest.mark.cell(TOOLS, "TopicCommand --describe")
def test_a_topic_is_created_with_configurations_and_described(bootstrap: str) -> None:
    name = "made-by-topic-command"
    create = ("--create", "--topic", name, "--partitions", "3")
    assert f"Created topic {name}." in tool(
        "TopicCommand", bootstrap, *create, "--config", "retention.ms=60000000"
    )
    described = tool("TopicCommand", bootstrap, "--describe", "--topic", name)
    assert "PartitionCount: 3" in described
    assert "retention.ms=60000000" in described
    again = tool("TopicCommand", bootstrap, *create, check=False)
    assert f"Topic '{name}' already exists" in again


@pytest.mark.cell(TOOLS, "TopicCommand --describe --topic-id")
def test_a_topic_is_described_by_its_id(bootstrap: str, topic: str) -> None:
    by_name = tool("TopicCommand", bootstrap, "--describe", "--topic", topic)
    found = re.search(r"TopicId: (\S+)", by_name)
    assert found is not None
    by_id = tool("TopicCommand", bootstrap, "--describe", "--topic-id", found.group(1))
    # By name the tool asks DescribeTopicPartitions, by id Metadata, which has no such replicas.
    eligible = r"\tElr:.*"
    assert re.sub(eligible, "", by_id) == re.sub(eligible, "", by_name)


@pytest.mark.cell(TOOLS, "TopicCommand --create")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--topic", "bad/name", "--partitions", "1"), "Topic name is invalid"),
        (
            ("--topic", "bad-config", "--partitions", "1", "--config", "no.such.setting=1"),
            "no.such.setting",
        ),
        (
            ("--topic", "bad-value", "--partitions", "1", "--config", "retention.ms=soon"),
            "retention.ms",
        ),
    ],
)
def test_what_cannot_be_created_is_refused(
    bootstrap: str, arguments: tuple[str, ...], message: str
) -> None:
    said = tool("TopicCommand", bootstrap, "--create", *arguments, check=False)
    assert message in said
    assert "Created topic" not in said


@pytest.mark.cell(TOOLS, "TopicCommand --alter")
def test_a_topic_grows_and_does_not_shrink(bootstrap: str, topic: str) -> None:
    tool("TopicCommand", bootstrap, "--alter", "--topic", topic, "--partitions", "4")
    assert "PartitionCount: 4" in tool("TopicCommand", bootstrap, "--describe", "--topic", topic)
    shrink = ("--alter", "--topic", topic, "--partitions", "2")
    assert "would not be an increase" in tool("TopicCommand", bootstrap, *shrink, check=False)


@pytest.mark.cell(TOOLS, "TopicCommand --list")
@pytest.mark.cell(TOOLS, "TopicCommand --delete")
def test_a_deleted_topic_is_listed_no_more(bootstrap: str, topic: str) -> None:
    assert topic in tool("TopicCommand", bootstrap, "--list").split()
    tool("TopicCommand", bootstrap, "--delete", "--topic", topic)
    wait_until(lambda: topic not in tool("TopicCommand", bootstrap, "--list").split())


@pytest.mark.cell(TOOLS, "ConfigCommand --alter --entity-type topics")
@pytest.mark.cell(TOOLS, "ConfigCommand --describe --entity-type topics")
def test_configurations_are_set_described_and_removed(bootstrap: str, topic: str) -> None:
    def command(*arguments: str) -> str:
        entity = ("--entity-type", "topics", "--entity-name", topic)
        return tool("kafka.admin.ConfigCommand", bootstrap, *entity, *arguments)

    command("--alter", "--add-config", "retention.ms=111000,max.message.bytes=2000000")
    described = command("--describe")
    assert "retention.ms=111000" in described
    assert "max.message.bytes=2000000" in described
    command("--alter", "--delete-config", "retention.ms")
    assert "retention.ms=" not in command("--describe")
    assert "retention.ms=604800000" in command("--describe", "--all")


@pytest.mark.cell(TOOLS, "ConfigCommand --describe --entity-type brokers")
def test_a_brokers_configurations_are_described(bootstrap: str) -> None:
    described = tool(
        "kafka.admin.ConfigCommand", bootstrap, "--describe", "--all", "--entity-type", "brokers",
        "--entity-name", broker_id(bootstrap),
    )  # fmt: skip
    assert "auto.create.topics.enable=" in described


def broker_id(bootstrap: str) -> str:
    said = tool("BrokerApiVersionsCommand", bootstrap)
    found = re.search(r"\(id: (\d+) rack:", said)
    assert found, said
    return found[1]


@pytest.mark.cell(TOOLS, "GetOffsetShell --time")
def test_offsets_are_found_by_time(bootstrap: str, topic: str) -> None:
    records = [InteropRecord(b"v", b"k", (), time) for time in (*TIMES, TIMES[0])]
    LIBRDKAFKA.produce(bootstrap, topic, records)
    expected = {
        "earliest": 0,
        "latest": 4,
        "max-timestamp": 2,
        "earliest-local": 0,
        str(TIMES[0]): 0,
        str(TIMES[0] + 1): 1,
        str(TIMES[1]): 1,
        str(TIMES[1] + 1): 2,
    }
    for time, offset in expected.items():
        said = tool("GetOffsetShell", bootstrap, "--topic", topic, "--time", time)
        assert said.strip() == f"{topic}:0:{offset}", f"--time {time}"


@pytest.mark.cell(TOOLS, "DeleteRecordsCommand")
def test_records_below_an_offset_are_deleted(bootstrap: str, topic: str, tmp_path: Path) -> None:
    LIBRDKAFKA.produce(bootstrap, topic, numbered(30))
    file = tmp_path / "offsets.json"
    partitions = [{"topic": topic, "partition": 0, "offset": 12}]
    file.write_text(json.dumps({"partitions": partitions, "version": 1}))
    said = tool("DeleteRecordsCommand", bootstrap, "--offset-json-file", file)
    assert "low_watermark: 12" in said
    earliest = tool("GetOffsetShell", bootstrap, "--topic", topic, "--time", "earliest")
    assert earliest.strip() == f"{topic}:0:12"


@pytest.mark.cell(TOOLS, "BrokerApiVersionsCommand")
def test_the_java_client_finds_every_api_usable(bootstrap: str) -> None:
    said = tool("BrokerApiVersionsCommand", bootstrap)
    assert bootstrap in said
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", said), said
    assert re.search(r"Fetch\(1\): 4 to 1\d \[usable: 1\d\]", said), said
    assert "Exception" not in said


@pytest.mark.cell(TOOLS, "ClusterTool cluster-id")
def test_the_cluster_has_an_id(bootstrap: str) -> None:
    said = run("ClusterTool", "cluster-id", "--bootstrap-server", bootstrap)
    assert re.search(r"Cluster ID: \S+", said)


@pytest.mark.cell(TOOLS, "ClusterTool list-endpoints")
def test_the_brokers_endpoints_are_listed(bootstrap: str) -> None:
    said = run("ClusterTool", "list-endpoints", "--bootstrap-server", bootstrap)
    assert bootstrap.split(":")[1] in said


@pytest.mark.cell(TOOLS, "ProducerPerformance")
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_producer_performance_delivers_every_record(bootstrap: str, codec: str) -> None:
    topic = create_topic(bootstrap, partitions=3)
    said = tool(
        "ProducerPerformance", bootstrap, "--topic", topic, "--num-records", "20000",
        "--record-size", "1000", "--throughput", "-1",
        "--command-property", "acks=all", f"compression.type={codec}",
    )  # fmt: skip
    assert "20000 records sent" in said
    offsets = tool("GetOffsetShell", bootstrap, "--topic", topic).split()
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets) == 20000


@pytest.mark.cell(TOOLS, "VerifiableProducer")
def test_verifiable_producer_sees_every_record_acknowledged(bootstrap: str, topic: str) -> None:
    said = tool("VerifiableProducer", bootstrap, "--topic", topic, "--max-messages", "500")
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    acknowledged = [each for each in events if each["name"] == "producer_send_success"]
    assert [each["offset"] for each in acknowledged] == list(range(500))
    received = LIBRDKAFKA.consume(bootstrap, topic, count=500)
    assert [came.record.value for came in received] == [str(n).encode() for n in range(500)]


@pytest.mark.cell(TOOLS, "ConsoleConsumer --partition --offset")
@pytest.mark.parametrize(("offset", "first"), [("earliest", 0), ("25", 25)])
def test_the_console_consumer_starts_at_the_requested_offset(
    bootstrap: str, topic: str, offset: str, first: int
) -> None:
    LIBRDKAFKA.produce(bootstrap, topic, numbered(30))
    said = tool(
        "consumer.ConsoleConsumer", bootstrap, "--topic", topic, "--partition", "0",
        "--offset", offset, "--max-messages", str(30 - first), "--timeout-ms", "20000",
    )  # fmt: skip
    expected = [record.value.decode() for record in numbered(30)[first:] if record.value]
    assert said.splitlines()[: len(expected)] == expected


@pytest.mark.cell(TOOLS, "ConfigCommand --entity-type clients")
def test_a_clients_quota_is_set_described_and_removed(bootstrap: str) -> None:
    name = fresh_name("client")

    def command(*arguments: str) -> str:
        entity = ("--entity-type", "clients", "--entity-name", name)
        return tool("kafka.admin.ConfigCommand", bootstrap, *entity, *arguments)

    command("--alter", "--add-config", "producer_byte_rate=1000000,request_percentage=50")
    wait_until(lambda: "producer_byte_rate=1000000" in command("--describe"))
    assert "request_percentage=50" in command("--describe")
    command("--alter", "--delete-config", "producer_byte_rate,request_percentage")
    wait_until(lambda: "producer_byte_rate" not in command("--describe"))


@pytest.mark.cell(TOOLS, "LogDirsCommand --describe")
def test_the_sizes_of_a_topics_partitions_are_described(bootstrap: str, topic: str) -> None:
    LIBRDKAFKA.produce(bootstrap, topic, numbered(50))
    said = tool("LogDirsCommand", bootstrap, "--describe", "--topic-list", topic)
    (line,) = (each for each in said.splitlines() if each.startswith("{"))
    (broker,) = json.loads(line)["brokers"]
    sizes = {
        each["partition"]: each["size"]
        for folder in broker["logDirs"]
        for each in folder["partitions"]
    }
    assert sizes[f"{topic}-0"] > 50 * 100


@pytest.mark.cell(TOOLS, "LeaderElectionCommand")
def test_an_election_ends_well(bootstrap: str, topic: str) -> None:
    chosen = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    said = tool("LeaderElectionCommand", bootstrap, *chosen)
    assert "Valid replica already elected for partitions" in said


@pytest.mark.cell(TOOLS, "ReassignPartitionsCommand")
def test_a_partition_stays_where_it_is(bootstrap: str, topic: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    where = {"topic": topic, "partition": 0, "replicas": [int(broker_id(bootstrap))]}
    plan.write_text(json.dumps({"version": 1, "partitions": [where]}))
    command, file = "reassign.ReassignPartitionsCommand", ("--reassignment-json-file", plan)
    assert "Successfully started" in tool(command, bootstrap, "--execute", *file)
    wait_until(lambda: "is completed" in tool(command, bootstrap, "--verify", *file))
    assert "No partition reassignments found" in tool(command, bootstrap, "--list")


@pytest.mark.cell(TOOLS, "TransactionsCommand")
def test_producers_are_described_and_no_transactions_are_listed(bootstrap: str, topic: str) -> None:
    LIBRDKAFKA.produce(bootstrap, topic, numbered(20), settings={"enable.idempotence": True})
    chosen = ("describe-producers", "--topic", topic, "--partition", "0")
    said = run("TransactionsCommand", "--bootstrap-server", bootstrap, *chosen)
    assert re.search(r"^\d+\s+0\s+-?\d+\s+19\s", said, re.MULTILINE), said
    listed = run("TransactionsCommand", "--bootstrap-server", bootstrap, "list")
    assert "TransactionalId" in listed


@pytest.mark.cell(TOOLS, "EndToEndLatency")
def test_end_to_end_latency_is_measured(bootstrap: str, topic: str) -> None:
    chosen = ("--topic", topic, "--num-records", "50", "--producer-acks", "all")
    said = tool("EndToEndLatency", bootstrap, *chosen, "--record-size", "100")
    assert "Avg latency" in said
