"""What is read together of an object."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.formats.metadata_values import INLINE, WAL, IndexEntry
from headwater.log.read.ranged_reads import GAP_BYTES, plan_reads


def entry(key: str, position: int, length: int, kind: int = WAL) -> IndexEntry:
    return IndexEntry(
        start=0, end=1, kind=kind, length=length, size=1, max_timestamp=0, created_ms=0,
        store="s", key=key, position=position,
    )  # fmt: skip


ENTRIES = st.lists(
    st.builds(
        entry,
        st.sampled_from("ab"),
        st.integers(0, 40 * GAP_BYTES),
        st.integers(1, 4 * GAP_BYTES),
        st.sampled_from([WAL, WAL, WAL, INLINE]),
    ),
    max_size=40,
)


@given(ENTRIES)
def test_every_chunk_lies_in_one_span_and_little_else_is_read(entries: list[IndexEntry]) -> None:
    spans = list(plan_reads(entries))
    members = [number for span in spans for number in span.members]
    assert sorted(members) == [n for n, one in enumerate(entries) if one.kind != INLINE]
    for span in spans:
        own = [entries[number] for number in span.members]
        assert {(one.store, one.key) for one in own} == {(span.store, span.key)}
        assert min(one.position for one in own) == span.position
        assert max(one.position + one.length for one in own) == span.end
        asked = sum(one.length for one in own)
        assert span.length <= 2 * asked + GAP_BYTES * len(own)


def test_neighbours_are_one_read_and_what_lies_far_off_is_another() -> None:
    near = [entry("a", 100, 1_000), entry("a", 1_100, 1_000), entry("a", 2_100 + GAP_BYTES, 10)]
    far = [entry("a", 40 * GAP_BYTES, 10), entry("b", 100, 1_000)]
    spans = list(plan_reads([*far, *near]))
    assert [(span.key, span.position, span.members) for span in spans] == [
        ("a", 100, [2, 3, 4]),
        ("a", 40 * GAP_BYTES, [0]),
        ("b", 100, [1]),
    ]


def test_a_gap_is_read_over_where_as_much_was_asked_for() -> None:
    large = entry("a", 0, 10 * GAP_BYTES)
    (span,) = plan_reads([large, entry("a", 19 * GAP_BYTES, 1)])
    assert span.length == 19 * GAP_BYTES + 1
    assert len(list(plan_reads([large, entry("a", 21 * GAP_BYTES, 1)]))) == 2
