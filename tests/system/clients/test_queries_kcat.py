"""What kcat does besides records: offsets, metadata, and reading in a group."""

import json

import pytest

from tests.support.interop.capabilities import BOUNDS, BY_TIME, CLUSTER, IN_A_GROUP, TIMES
from tests.support.interop.clients import LIBRDKAFKA
from tests.support.interop.clients.kcat import run_kcat
from tests.support.interop.members.offsets import committed_offsets
from tests.support.interop.members.state import InteropOffset, place
from tests.support.interop.records import numbered
from tests.system.clients.conftest import fresh_name


@pytest.mark.cell("kcat", BY_TIME)
def test_kcat_finds_offsets_by_time(bootstrap: str, timed_topic: str) -> None:
    assert query(bootstrap, timed_topic, TIMES[1] - 1) == 1
    assert query(bootstrap, timed_topic, TIMES[1] + 1) == 2


@pytest.mark.cell("kcat", BOUNDS)
def test_kcat_finds_the_first_and_the_last_offset(bootstrap: str, timed_topic: str) -> None:
    assert query(bootstrap, timed_topic, -2) == 0
    assert query(bootstrap, timed_topic, -1) == 3


def query(bootstrap: str, topic: str, time: int) -> object:
    answer = json.loads(run_kcat(bootstrap, f"{topic}:0:{time}", "-Q", "-J"))
    return answer[topic]["0"]["offset"]


@pytest.mark.cell("kcat", CLUSTER)
def test_kcat_lists_metadata(bootstrap: str, topic: str) -> None:
    metadata = json.loads(run_kcat(bootstrap, topic, "-L", "-J"))
    assert metadata["brokers"][0]["name"] == bootstrap
    assert [each["topic"] for each in metadata["topics"]] == [topic]


@pytest.mark.cell("kcat", IN_A_GROUP)
def test_kcat_reads_in_a_group_and_goes_on_where_it_was(bootstrap: str, topic: str) -> None:
    group = fresh_name("group")
    for first in (0, 20):
        LIBRDKAFKA.produce(bootstrap, topic, numbered(20, first=first))
        chosen = ["-G", group, "-X", "auto.offset.reset=earliest", "-c", "20", "-f", "%o\n"]
        said = run_kcat(bootstrap, topic, *chosen)
        assert [int(line) for line in said.split()] == list(range(first, first + 20))
        assert committed_offsets(bootstrap, group) == {place(topic, 0): InteropOffset(first + 20)}
