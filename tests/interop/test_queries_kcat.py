"""What kcat asks besides records: offsets and metadata."""

import json

import pytest

from tests.interop.capabilities import BOUNDS, BY_TIME, CLUSTER, TIMES
from tests.interop.clients.kcat import run_kcat


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
