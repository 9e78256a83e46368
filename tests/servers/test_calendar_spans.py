from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from servers.services.calendar.spans import Span, common, merged, without

spans = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10)).map(lambda pair: (pair[0], sum(pair))), max_size=8)


def moments(pieces: list[Span]) -> set[int]:
    return {moment for begin, end in pieces for moment in range(begin, end)}


@given(spans, spans)
def test_spans_behave_like_the_sets_of_moments_they_stand_for(left: list[Span], right: list[Span]) -> None:
    one, other = merged(left), merged(right)
    assert moments(one) == moments(left)
    assert moments(common(one, other)) == moments(left) & moments(right)
    assert moments(without(one, other)) == moments(left) - moments(right)
    for result in (one, common(one, other), without(one, other)):
        assert result == sorted(result)
        assert all(begin < end for begin, end in result)
