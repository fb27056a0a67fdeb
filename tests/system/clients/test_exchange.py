"""What any client sends, every other client reads: the same records in the same order."""

from functools import cache

import pytest

from peers.process import Server
from tests.support.interop.capabilities import TIMED, TIMES
from tests.support.interop.clients import CLIENTS, JAVA_CONSOLE, LIBRDKAFKA, InteropClient
from tests.support.interop.clients.driven import JAVA
from tests.support.interop.records import CODECS, SAMPLES, Feature, InteropRecord, numbered
from tests.system.clients.conftest import create_topic

COUNT = 50


@cache
def topic_with(bootstrap: str, producer: InteropClient, codec: str, feature: Feature | None) -> str:
    """Each producer writes once; every consumer reads the same topic."""
    topic = create_topic(bootstrap)
    records = numbered(COUNT) if feature is None else SAMPLES[feature]
    producer.produce(bootstrap, topic, records, codec=codec)
    return topic


def pairs(*partners: InteropClient) -> list[tuple[InteropClient, InteropClient]]:
    """All pairs of clients that contain a partner.

    The console tools start a Java machine for each call, so they have one partner only.
    """
    return [
        (producer, consumer)
        for producer in CLIENTS
        for consumer in CLIENTS
        if not {producer, consumer}.isdisjoint(partners)
        and (JAVA_CONSOLE not in {producer, consumer} or LIBRDKAFKA in {producer, consumer})
    ]


def codec_pairs() -> list[object]:
    return [
        pytest.param(
            producer,
            codec,
            consumer,
            id=f"{producer.name}-{codec}-{consumer.name}",
            marks=[
                pytest.mark.cell(producer.name, f"produce, codec {codec}"),
                pytest.mark.cell(consumer.name, f"consume, codec {codec}"),
            ],
        )
        for producer, consumer in pairs(*CLIENTS)
        for codec in CODECS
    ]


def feature_pairs() -> list[object]:
    return [
        pytest.param(
            producer,
            feature,
            consumer,
            id=f"{producer.name}-{feature.name.lower()}-{consumer.name}",
            marks=[
                pytest.mark.cell(producer.name, f"produce, {feature}"),
                pytest.mark.cell(consumer.name, f"consume, {feature}"),
            ],
        )
        for producer, consumer in pairs(LIBRDKAFKA, JAVA)
        for feature in sorted(producer.sends & consumer.reads)
    ]


@pytest.mark.parametrize(("producer", "codec", "consumer"), codec_pairs())
def test_compressed_records_are_read_as_they_were_sent(
    bootstrap: str, producer: InteropClient, codec: str, consumer: InteropClient
) -> None:
    topic = topic_with(bootstrap, producer, codec, None)
    received = consumer.consume(bootstrap, topic, count=COUNT)
    assert [came.record for came in received] == numbered(COUNT)
    assert [came.offset for came in received] == list(range(COUNT))


@pytest.mark.parametrize(("producer", "feature", "consumer"), feature_pairs())
def test_every_part_of_a_record_survives(
    bootstrap: str, producer: InteropClient, feature: Feature, consumer: InteropClient
) -> None:
    sent = SAMPLES[feature]
    topic = topic_with(bootstrap, producer, "none", feature)
    received = consumer.consume(bootstrap, topic, count=len(sent))
    assert [came.record for came in received] == [without_time(record) for record in sent]
    if feature is Feature.TIMESTAMPS:
        assert [came.timestamp_ms for came in received] == [each.timestamp_ms for each in sent]


def without_time(record: InteropRecord) -> InteropRecord:
    return InteropRecord(record.value, record.key, record.headers)


def for_each_client(capability: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "client",
        [
            pytest.param(each, id=each.name, marks=pytest.mark.cell(each.name, capability))
            for each in CLIENTS
        ],
    )


@for_each_client("consume from an offset inside a batch")
def test_reading_starts_at_the_offset_asked_for(bootstrap: str, client: InteropClient) -> None:
    topic = topic_with(bootstrap, LIBRDKAFKA, "zstd", None)
    received = client.consume(bootstrap, topic, offset=17, count=COUNT - 17)
    assert [came.offset for came in received] == list(range(17, COUNT))
    assert [came.record for came in received] == numbered(COUNT)[17:]


@for_each_client("idempotent producer")
def test_an_idempotent_producer_appends_each_record_once(
    bootstrap: str, topic: str, client: InteropClient
) -> None:
    records = numbered(300)
    client.produce(bootstrap, topic, records, settings={"enable.idempotence": True})
    client.produce(bootstrap, topic, numbered(10, first=300), settings={"enable.idempotence": True})
    received = LIBRDKAFKA.consume(bootstrap, topic, count=310)
    assert [came.record for came in received] == numbered(310)


@for_each_client("acks 0 and 1")
def test_weaker_acknowledgements_deliver_too(
    bootstrap: str, topic: str, client: InteropClient
) -> None:
    settings = {"enable.idempotence": False}
    client.produce(bootstrap, topic, numbered(20), settings={"acks": 1, **settings})
    client.produce(bootstrap, topic, numbered(20, first=20), settings={"acks": 0, **settings})
    received = LIBRDKAFKA.consume(bootstrap, topic, count=40)
    assert [came.record for came in received] == numbered(40)


@for_each_client("automatic creation of topics")
def test_producing_to_a_topic_that_does_not_exist_creates_it(
    bootstrap: str, client: InteropClient
) -> None:
    topic = f"made-by-{client.name.replace(' ', '-').replace(chr(39), '')}"
    client.produce(bootstrap, topic, numbered(5))
    received = client.consume(bootstrap, topic, count=5)
    assert [came.record for came in received] == numbered(5)


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(each, id=each.name, marks=pytest.mark.cell(each.name, "choose the partition"))
        for each in CLIENTS
        if each.chooses_partitions
    ],
)
def test_records_land_in_the_partition_that_was_chosen(
    bootstrap: str, client: InteropClient
) -> None:
    topic = create_topic(bootstrap, partitions=3)
    for partition in range(3):
        records = numbered(5 + partition, tag=f"p{partition}")
        client.produce(bootstrap, topic, records, partition=partition)
    for partition in range(3):
        received = client.consume(bootstrap, topic, partition=partition, count=5 + partition)
        assert [came.record for came in received] == numbered(5 + partition, tag=f"p{partition}")


@for_each_client("two brokers, either one")
def test_two_brokers_serve_the_same_topic(two_workers: Server, client: InteropClient) -> None:
    brokers = two_workers.bootstrap.split(",")
    topic = create_topic(two_workers.bootstrap)
    for place, broker in enumerate(brokers):
        client.produce(broker, topic, numbered(20, first=20 * place))
    for broker in brokers:
        received = client.consume(broker, topic, count=20 * len(brokers))
        assert [came.record for came in received] == numbered(20 * len(brokers))


@for_each_client("produce, too large for the topic is refused")
def test_a_batch_past_the_topics_limit_is_refused(bootstrap: str, client: InteropClient) -> None:
    topic = create_topic(bootstrap, max_message_bytes="2000")
    with pytest.raises(Exception, match=r"(?i)too.?large|MSG_SIZE"):
        client.produce(bootstrap, topic, [InteropRecord(b"x" * 5000, b"k")])
    client.produce(bootstrap, topic, [InteropRecord(b"x" * 500, b"k")])
    (received,) = client.consume(bootstrap, topic, count=1)
    assert received.record == InteropRecord(b"x" * 500, b"k")


@for_each_client("consume, log append time")
def test_log_append_time_replaces_the_clients_timestamp(
    bootstrap: str, client: InteropClient
) -> None:
    topic = create_topic(bootstrap, message_timestamp_type="LogAppendTime")
    LIBRDKAFKA.produce(bootstrap, topic, TIMED, codec="zstd")
    received = client.consume(bootstrap, topic, count=len(TIMED))
    assert all(came.timestamp_ms > TIMES[-1] for came in received)
