import pytest

from headwater.errors import InvalidConfig
from headwater.topic_config.table import PartitionTerm, parse_partitioning
from headwater.topic_config.topic import check_configs


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("partition", [PartitionTerm("identity", "partition")]),
        (" day( timestamp )", [PartitionTerm("day", "timestamp")]),
        (
            "partition,hour(timestamp),bucket(16,key)",
            [
                PartitionTerm("identity", "partition"),
                PartitionTerm("hour", "timestamp"),
                PartitionTerm("bucket", "key", 16),
            ],
        ),
    ],
)
def test_a_partitioning_is_read(text: str, terms: list[PartitionTerm]) -> None:
    assert list(parse_partitioning(text)) == terms


@pytest.mark.parametrize(
    "text",
    ["", " ", "offset", "day(offset)", "day(timestamp", "bucket(key)", "bucket(0, key)",
     "bucket(16, value)", "day(2, timestamp)", "partition,", ",partition", "partition partition",
     "partition, partition", "bucket(99999, key)"],
)  # fmt: skip
def test_what_is_no_partitioning_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|twice"):
        parse_partitioning(text)


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({"headwater.compact-to": "orc"}, "must be one of: parquet, segment, both, none"),
        ({"headwater.table.name": "orders"}, "must be namespace.table"),
        ({"headwater.table.name": "a.b c"}, "must be namespace.table"),
        ({"headwater.table.partition-by": "day(value)"}, "must be a list of partition"),
        ({"headwater.table.partition-by": "day(timestamp)"}, "needs headwater.compact-to=both"),
        (
            {"cleanup.policy": "compact", "headwater.compact-to": "segment"},
            "needs headwater.compact-to=parquet, not segment",
        ),
    ],
)
def test_a_wrong_configuration_is_refused_with_the_reason(
    configs: dict[str, str], reason: str
) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        check_configs(configs)


def test_a_copy_may_be_partitioned_otherwise() -> None:
    check_configs(
        {"headwater.compact-to": "both", "headwater.table.partition-by": "day(timestamp)"}
    )
    check_configs({"headwater.table.name": "lake.raw.orders_v2", "headwater.compact-to": "none"})
