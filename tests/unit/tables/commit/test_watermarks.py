from hypothesis import given
from hypothesis import strategies as st

from headwater.tables.commit.watermarks import (
    Append,
    Range,
    past_holes,
    plan_appends,
    watermark_property,
)

ranges = st.tuples(st.integers(0, 12), st.integers(1, 6)).map(lambda r: (r[0], r[0] + r[1]))


@given(mark=st.integers(0, 12), start=st.integers(0, 15), holes=st.lists(ranges, max_size=4))
def test_only_holes_are_jumped(mark: int, start: int, holes: list[Range]) -> None:
    after = past_holes(mark, start, holes)
    covered = {offset for low, high in holes for offset in range(low, high)}
    assert all(offset in covered for offset in range(mark, after))
    if mark <= start:
        assert mark <= after <= start
        assert after == start or after not in covered


@given(
    mark=st.integers(0, 8),
    jobs=st.lists(st.tuples(ranges, st.lists(ranges, max_size=2)), max_size=6),
)
def test_no_offset_is_appended_twice_and_none_is_passed_over(
    mark: int, jobs: list[tuple[Range, list[Range]]]
) -> None:
    appends = [
        Append(job=str(number), stream=1, start=start, end=end, files=[], holes=holes)
        for number, ((start, end), holes) in enumerate(jobs)
    ]
    plan = plan_appends(appends, {watermark_property(1): str(mark)})
    position = mark
    for one in plan.fresh:
        skipped = set(range(position, one.start))
        assert skipped <= {offset for low, high in one.holes for offset in range(low, high)}
        assert one.start >= position
        position = one.end
    assert plan.watermarks.get(1, mark) == position
    names = [*plan.landed, *(one.job for one in plan.fresh), *plan.refused]
    assert sorted(names) == sorted(one.job for one in appends)
