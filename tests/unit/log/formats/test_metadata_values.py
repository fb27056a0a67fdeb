"""Stored values survive decoding and encoding, even if another release wrote them."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cluster_record import ClusterRecord
from headwater.errors import UnknownFormat
from headwater.log.formats import metadata_values as formats
from headwater.log.formats.metadata_values import IndexEntry, Layout, Tail
from headwater.meta.values import NextNumber, Value, decode, encode, format_of

KINDS: Sequence[type[Value]] = (
    formats.Tail,
    formats.Layout,
    formats.IndexEntry,
    formats.Incarnation,
    formats.ObjectRecord,
    formats.Release,
    formats.TopicRecord,
    formats.DeletedTopic,
    ClusterRecord,
    NextNumber,
)
NUMBER = st.integers(-1, 2**63 - 1)
TEXT = st.text(max_size=20)
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: NUMBER,
    str: TEXT,
    bool: st.booleans(),
    bytes: st.binary(max_size=40),
    bytes | None: st.none() | st.binary(max_size=40),
    tuple[int, int]: st.tuples(NUMBER, NUMBER),
    tuple[str, int, int]: st.tuples(TEXT, NUMBER, NUMBER),
    list[tuple[int, int]]: st.lists(st.tuples(NUMBER, NUMBER), max_size=3),
    list[int]: st.lists(NUMBER, max_size=5),
    dict[str, str]: st.dictionaries(TEXT, TEXT, max_size=4),
    list[tuple[str, int, int]]: st.lists(st.tuples(TEXT, NUMBER, NUMBER), max_size=4),
    dict[int, formats.ProducerState]: st.dictionaries(
        st.integers(0, 2**63 - 1),
        st.builds(
            formats.ProducerState,
            NUMBER,
            NUMBER,
            st.lists(st.tuples(NUMBER, NUMBER, NUMBER), max_size=5),
            NUMBER,
            NUMBER,
        ),
        max_size=4,
    ),
    list[formats.StreamCommit]: st.lists(
        st.builds(
            formats.StreamCommit,
            NUMBER,
            st.lists(st.tuples(NUMBER, NUMBER, NUMBER), max_size=3),
            NUMBER,
            NUMBER,
            st.none() | st.binary(max_size=20),
            NUMBER,
        ),
        max_size=3,
    ),
}


def values(kind: type[Value]) -> st.SearchStrategy[Value]:
    fields = {field.name: BY_TYPE[field.type] for field in msgspec.structs.fields(kind)}
    return st.builds(kind, **fields)


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_comes_back(kind: type[Value]) -> None:
    @given(values(kind))
    def come_back(value: Value) -> None:
        assert decode(kind, encode(value)) == value

    come_back()


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_format_is_refused(kind: type[Value]) -> None:
    newer = msgspec.msgpack.encode({"v": format_of(kind) + 1})
    with pytest.raises(UnknownFormat, match="newer release"):
        decode(kind, newer)


@given(
    st.dictionaries(
        st.text(min_size=1).filter(lambda name: name not in {"v", "log_start", "generation"}),
        st.integers().filter(lambda n: abs(n) < 2**63) | st.text() | st.lists(st.booleans()),
        max_size=30,
    )
)
def test_fields_of_newer_releases_are_kept(unknown: dict[str, Any]) -> None:
    stored = msgspec.msgpack.encode({"v": 1, "log_start": 3, **unknown})
    value = decode(Layout, stored)
    value.generation += 1
    again = msgspec.msgpack.decode(encode(value))
    assert again == {"v": 1, "log_start": 3, "generation": 1, **unknown}
    assert decode(Layout, encode(value)).unknown == unknown


def test_an_index_entry_with_every_field_set_still_fits() -> None:
    entry = IndexEntry(
        start=1, end=2, kind=1, length=3, size=4, max_timestamp=5, created_ms=6, store="s",
        key="k", part=7, position=8, blocks=(9, 10), left_out=[11], data=b"12", set_aside="13",
        delete_horizon_ms=14,
    )  # fmt: skip
    unset = [
        field.name
        for field in msgspec.structs.fields(IndexEntry)
        if not field.required and getattr(entry, field.name) == field.default
    ]
    assert not unset
    assert decode(IndexEntry, encode(entry)) == entry


class LevelTwoCommit(msgspec.Struct, array_like=True):
    """A stream's commit as releases of feature level 2 know it."""

    stream: int
    verdicts: list[tuple[int, int, int]]
    start: int
    end: int
    entry: bytes | None


def test_a_commit_without_a_last_stable_offset_is_stable_to_its_end() -> None:
    older = msgspec.msgpack.encode(LevelTwoCommit(3, [(0, 45, 1)], 5, 9, b"e"))
    commit = msgspec.msgpack.decode(older, type=formats.StreamCommit)
    assert commit == formats.StreamCommit(3, [(0, 45, 1)], 5, 9, b"e", 9)


def test_releases_of_feature_level_2_read_a_commit_with_a_last_stable_offset() -> None:
    newer = msgspec.msgpack.encode(formats.StreamCommit(3, [], 5, 9, None, 9))
    assert msgspec.msgpack.decode(newer, type=LevelTwoCommit) == LevelTwoCommit(3, [], 5, 9, None)


def test_values_do_not_share_their_defaults() -> None:
    one, two = Tail(), decode(Tail, encode(Tail()))
    one.producers[1] = formats.ProducerState(0, 0, [])
    assert two.producers == {}
    assert Tail().producers == {}
